"""From scheduled functions to what code is generated of: TVM's passes, in the order that its own
pipeline has for TensorIR with schedules, without those for hardware that is no target of ours.
"""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx

from ...schedules.iter_maps import with_true_maps
from ...vulkan.codegen.vector_forms import vector_forms
from ..tir.argument_checks import merge_argument_checks
from ..tir.joined_conditions import joined_conditions
from ..tir.lane_conditions import lane_conditions
from ..tir.narrow_casts import narrow_casts


def lower(module: tvm.IRModule) -> tvm.IRModule:
    """The functions for host and device, one after another, still to be told apart."""
    return tvm.transform.Sequential(
        [
            s_tir.transform.CanonicalizeLoop(),
            s_tir.transform.LowerCrossThreadReduction(),
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.LiftThreadBinding(),
            s_tir.transform.ManifestSharedMemoryLocalStage(),
            with_true_maps(s_tir.transform.CompactBufferAllocation(), bounds=True),
            s_tir.transform.UnifyThreadBinding(),
            s_tir.transform.LowerMatchBuffer(),
            s_tir.transform.StmtSimplify(),
            s_tir.transform.AnnotateIrregularLoop(),
            s_tir.transform.InjectSoftwarePipeline(),
            s_tir.transform.LowerOpaqueBlock(),
            with_true_maps(tirx.transform.FlattenBuffer()),
            tirx.transform.BF16ComputeLegalize(),
            narrow_casts,
            tirx.transform.NarrowDataType(32),
            s_tir.transform.LoopPartition(),
            lane_conditions,
            tirx.transform.VectorizeLoop(True),
            s_tir.transform.InjectVirtualThread(),
            s_tir.transform.InjectDoubleBuffer(),
            tirx.transform.StorageRewrite(),
            s_tir.transform.HoistIfThenElse(),
            tirx.transform.UnrollLoop(),
            s_tir.transform.RenormalizeSplitPattern(),
            tirx.transform.StmtSimplify(),
            tirx.transform.RemoveNoOp(),
            s_tir.transform.RewriteUnsafeSelect(),
            joined_conditions,
            tirx.transform.CommonSubexprElim(),
            tirx.transform.FP8ComputeLegalize(),
            tirx.transform.VerifyMemory(),
            tirx.transform.AnnotateEntryFunc(),
            s_tir.transform.ThreadSync("shared"),
            s_tir.transform.ThreadSync("shared.dyn"),
            s_tir.transform.ThreadSync("warp"),
            # The shapes of cooperative matrices.
            s_tir.transform.InferFragment(),
            s_tir.transform.LowerThreadAllreduce(),
            s_tir.transform.MergeSharedMemoryAllocations(),
            tirx.transform.SplitHostDevice(),
            tirx.transform.MakePackedAPI(),
            merge_argument_checks,
            tirx.transform.FP8StorageLegalize(),
            tirx.transform.BF16StorageLegalize(),
        ]
    )(vector_forms(module))
