"""The networks of the zoo: families of torchvision, timm, transformers, segmentation_models_pytorch
(``smp``) and some of our own that these lack (``own``), weights random.

Trained weights say nothing about time. Batch normalizations are moved from their initial values, so
that what is folded into weights shows in the results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import own

SEED = 0
OPSET = 17
LICENCES = {
    "torchvision": "BSD-3-Clause",
    "timm": "Apache-2.0",
    "transformers": "Apache-2.0",
    "ultralytics": "AGPL-3.0",
    "smp": "MIT",
    "own": "Apache-2.0",
}
# Images with a longer edge have it in their network's name: others of it are smaller.
LONG_EDGE = 400


@dataclass(frozen=True)
class Network:
    """A network of a library.

    Attributes:
        source: the library, which is its licence's too (LICENCES).
        model: its name there.
        shape: of the one input; of those of libraries (n, 3, height, width), or (n, 3, frames,
            height, width).
    """

    source: str
    model: str
    shape: tuple[int, ...]

    @property
    def name(self) -> str:
        """Unique in the zoo."""
        batch = f", batch {self.shape[0]}" if self.shape[0] > 1 else ""
        size = f", {self._size}" if self._size else ""
        return f"{self.source} {self.model}{batch}{size}"

    @property
    def file(self) -> str:
        """The name as part of a file's."""
        size = f"_{self._size}" if self._size else ""
        return f"{self.source}_{self.model}_{self.shape[0]}{size}"

    @property
    def _size(self) -> str:
        """Of a large image, as 480x640."""
        is_large = len(self.shape) == 4 and max(self.shape[2:]) > LONG_EDGE
        return "x".join(map(str, self.shape[2:])) if is_large else ""

    def build(self) -> Any:
        """The module, in evaluation, with random weights of SEED. Raises ImportError without the
        library."""
        import torch

        torch.manual_seed(SEED)
        module = _BUILDERS[self.source](self.model)
        random = torch.Generator().manual_seed(SEED + 1)
        for part in module.modules():
            if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
                mean, variance = part.running_mean, part.running_var
                mean.copy_(0.05 * torch.randn(mean.shape, generator=random))
                variance.copy_(0.75 + 0.5 * torch.rand(variance.shape, generator=random))
        # Heads and gains that begin with zeros would hide whatever they multiply.
        for name, parameter in module.named_parameters():
            if not name.endswith("bias") and not parameter.any():
                parameter.data = 0.02 * torch.randn(parameter.shape, generator=random)
        return module.eval()

    def export(self, path: Path) -> None:
        """Writes the ONNX file, whole or not at all."""
        import torch

        # What PyTorch computes attention with by itself has no form in ONNX.
        torch.backends.mha.set_fastpath_enabled(False)
        written = path.with_suffix(".part.onnx")
        with torch.no_grad():
            torch.onnx.export(
                self.build(), (torch.randn(self.shape),), str(written), opset_version=OPSET,
                dynamo=False, input_names=["input"], output_names=["output"],
            )  # fmt: skip
        written.rename(path)


def _of_torchvision(model: str) -> Any:
    import torchvision

    if model in (*_OF_CLIPS, *_OF_LONG_CLIPS):
        return getattr(torchvision.models.video, model)(weights=None)
    if model in _SEGMENTERS:
        whole = getattr(torchvision.models.segmentation, model)(weights=None, weights_backbone=None)
        return _one_output(whole, lambda found: found["out"])
    extra = {"init_weights": False} if model == "inception_v3" else {}
    module = getattr(torchvision.models, model)(weights=None, **extra)
    if model == "inception_v3":
        module.aux_logits, module.AuxLogits = False, None
    return module


def _of_timm(model: str) -> Any:
    import timm

    return timm.create_model(model, pretrained=False, exportable=True)


def _of_ultralytics(model: str) -> Any:
    """A detector with the boxes decoded, layers fused as the library runs it. Its normalizations
    have the statistics of noise: with those that it begins with, nothing of an image is left in
    fp16 at its end."""
    import torch
    from ultralytics.nn.tasks import DetectionModel

    made = DetectionModel(f"{model}.yaml", verbose=False).train()
    for part in made.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        made(torch.rand(2, 3, 320, 320))
    made = made.eval().fuse(verbose=False)
    made.model[-1].export = True
    return made


def _of_smp(model: str) -> Any:
    """``decoder_encoder`` as the library names them."""
    import segmentation_models_pytorch

    decoder, encoder = model.split("_", 1)
    return segmentation_models_pytorch.create_model(
        decoder, encoder_name=encoder, encoder_weights=None, classes=5
    )


def _of_transformers(model: str) -> Any:
    import transformers

    small = {"hidden_size": 384, "num_attention_heads": 6}
    resnet18 = {"hidden_sizes": [64, 128, 256, 512], "depths": [2] * 4, "layer_type": "basic"}
    if model == "rt_detr_r18":
        stages = ["stage2", "stage3", "stage4"]
        backbone = transformers.RTDetrResNetConfig(**resnet18, out_features=stages)
        config = transformers.RTDetrConfig(
            backbone_config=backbone, encoder_in_channels=[128, 256, 512], decoder_layers=3,
            hidden_expansion=0.5, anchor_image_size=[320, 320],
        )  # fmt: skip
        made = transformers.RTDetrForObjectDetection(config)
        return _one_output(made, lambda found: found.pred_boxes)
    if model == "yolos_tiny":
        config = transformers.YolosConfig(
            hidden_size=192, num_attention_heads=3, intermediate_size=768, image_size=[320, 320],
        )  # fmt: skip
        made = transformers.YolosForObjectDetection(config)
        return _one_output(made, lambda found: found.pred_boxes)
    if model == "vitpose_small":
        backbone = transformers.VitPoseBackboneConfig(**small, image_size=[256, 192])
        made = transformers.VitPoseForPoseEstimation(
            transformers.VitPoseConfig(backbone_config=backbone, num_labels=17)
        )
        return _one_output(made, lambda found: found.heatmaps)
    if model == "segformer_b0":
        config = transformers.SegformerConfig(num_labels=19)
        made = transformers.SegformerForSemanticSegmentation(config)
    elif model == "mobilevit_deeplab":
        config = transformers.MobileViTConfig(image_size=512, num_labels=21)
        made = transformers.MobileViTForSemanticSegmentation(config)
    elif model == "dpt_small":
        config = transformers.DPTConfig(
            **small, image_size=384, backbone_out_indices=[2, 5, 8, 11],
            neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64,
        )  # fmt: skip
        made = transformers.DPTForDepthEstimation(config)
    elif model == "sam_tower":
        made = transformers.SamVisionModel(
            transformers.SamVisionConfig(
                **small, mlp_dim=1536, image_size=512, initializer_range=0.02
            )
        )
    elif model == "detr_r18":
        backbone = transformers.ResNetConfig(**resnet18, out_features=["stage4"])
        config = transformers.DetrConfig(
            use_timm_backbone=False, backbone=None, use_pretrained_backbone=False,
            backbone_config=backbone,
        )  # fmt: skip
        whole = transformers.DetrForObjectDetection(config)
        return _one_output(whole, lambda found: found.pred_boxes)
    elif model == "whisper_tiny":
        config = transformers.WhisperConfig()
        made = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    elif model == "wav2vec2_small":
        config = transformers.Wav2Vec2Config(
            hidden_size=384, num_attention_heads=6, intermediate_size=1536, num_hidden_layers=6,
            mask_time_prob=0.0,
        )  # fmt: skip
        made = transformers.Wav2Vec2Model(config)
    elif model == "dinov2_small":
        made = transformers.Dinov2Model(transformers.Dinov2Config(**small, image_size=224))
    else:
        backbone = transformers.Dinov2Config(
            **small, image_size=518, out_indices=[3, 6, 9, 12], reshape_hidden_states=False,
            apply_layernorm=True,
        )  # fmt: skip
        config = transformers.DepthAnythingConfig(
            backbone_config=backbone, neck_hidden_sizes=[48, 96, 192, 384], fusion_hidden_size=64,
            reassemble_hidden_size=384,
        )  # fmt: skip
        made = transformers.DepthAnythingForDepthEstimation(config)
    return _one_output(made, lambda found: found[0])


def _one_output(module: Any, chosen: Callable[[Any], Any]) -> Any:
    import torch

    class OneOutput(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = module

        def forward(self, image: Any) -> Any:
            return chosen(self.whole(image))

    return OneOutput()


_BUILDERS: dict[str, Callable[[str], Any]] = {
    "torchvision": _of_torchvision,
    "timm": _of_timm,
    "transformers": _of_transformers,
    "ultralytics": _of_ultralytics,
    "smp": _of_smp,
    "own": own.build,
}
_OF_CLIPS = ("r3d_18", "r2plus1d_18")
_OF_LONG_CLIPS = ("s3d", "swin3d_t")
_SEGMENTERS = ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50")


def _all(source: str, edge: int, models: str, batch: int = 1) -> list[Network]:
    return [Network(source, model, (batch, 3, edge, edge)) for model in models.split()]


# Of each family one or a few: what a run times where nothing else is asked for.
CORE = (
    *_all("torchvision", 224, "resnet18 resnet50 resnext50_32x4d regnet_y_800mf mobilenet_v2 "
          "mobilenet_v3_large squeezenet1_1 efficientnet_b0 efficientnet_v2_s densenet121 vgg16 "
          "convnext_tiny vit_b_16 swin_t maxvit_t"),
    *_all("torchvision", 256, "swin_v2_t"),
    *_all("torchvision", 299, "inception_v3"),
    *_all("torchvision", 320, " ".join(_SEGMENTERS)),
    *_all("torchvision", 224, "vit_b_16", 4),
    *_all("torchvision", 224, "resnet50 mobilenet_v2", 16),
    *_all("timm", 224, "mobilenetv4_conv_small ghostnet_100 efficientformer_l1 levit_128s "
          "deit_tiny_patch16_224 hrnet_w18_small mixer_s16_224 convnextv2_atto repvit_m1 "
          "res2net50_26w_4s coatnet_0_rw_224 nfnet_l0 dla34 gmlp_s16_224 caformer_s18"),
    *_all("timm", 256, "fastvit_t8 mobilevit_s"),
    *_all("transformers", 512, "segformer_b0"),
    *_all("transformers", 266, "depth_anything_small"),
    *_all("transformers", 224, "dinov2_small"),
    *_all("transformers", 320, "rt_detr_r18 yolos_tiny"),
    Network("transformers", "vitpose_small", (1, 3, 256, 192)),
    *_all("ultralytics", 320, "yolov5n yolov8n yolov8s yolov10n yolo11n yolo12n yolo26n"),
    *(Network("own", model, own.SHAPES[model]) for model in ("unet", "lstm", "gru")),
)  # fmt: skip
MORE = (
    *_all("timm", 224, "poolformerv2_s12 mobileone_s1 "
          "lcnet_100 rexnet_100 tiny_vit_11m_224 xcit_nano_12_p16_224 resnest26d "
          "ese_vovnet39b nextvit_small davit_tiny focalnet_tiny_srf "
          "cait_xxs24_224 rdnet_tiny hiera_tiny_224 skresnet18 seresnet50 "
          "vit_small_patch16_224 mambaout_femto convit_tiny tresnet_m poolformer_s12 "
          "levit_256 vit_base_patch32_224 ghostnetv2_100 vgg11_bn deit3_small_patch16_224 "
          "coat_lite_mini xcit_tiny_12_p16_224 repvgg_a0 ecaresnet26t efficientnetv2_rw_t"),
    *_all("timm", 240, "crossvit_tiny_240"),
    *_all("timm", 256, "edgenext_small efficientvit_b1 cspdarknet53 "
          "mobilevitv2_075 gcresnet33ts eca_botnext26ts_256 sebotnet33ts_256"),
    *_all("timm", 224, "vit_tiny_patch16_224 pit_ti_224 twins_svt_small pvt_v2_b1 visformer_tiny "
          "mvitv2_tiny gcvit_xxtiny swiftformer_xs starnet_s1 efficientvit_m2 "
          "fasternet_t1 inception_next_tiny convformer_s18 hgnetv2_b1 "
          "repghostnet_100 mixnet_s tinynet_a dpn68 selecsls42b "
          "efficientformerv2_s1 shvit_s1 tnt_s_legacy_patch16_224 resmlp_12_224 "
          "vitamin_small_224 fbnetc_100 mnasnet_100 efficientnet_lite0 "
          "resnetv2_50x1_bit regnetx_008 nf_regnet_b1 swin_s3_tiny_224 "
          "swinv2_cr_tiny_224 deit3_base_patch16_224 nest_tiny_jx sequencer2d_s "
          "seresnext50_32x4d resnet101 densenet201 resnetrs50 skresnext50_32x4d "
          "eva02_tiny_patch14_224 beit_base_patch16_224 repvit_m1_0 efficientnet_es "
          "tf_efficientnetv2_b0 vit_relpos_small_patch16_224 poolformerv2_s24 "
          "coatnet_nano_rw_224"),
    *_all("timm", 256, "cs3darknet_m maxxvitv2_nano_rw_256 mobilenetv4_hybrid_medium "
          "fastvit_mci0 lambda_resnet26t bat_resnext26ts gernet_m "
          "maxvit_nano_rw_256 edgenext_x_small efficientnet_b2 "
          "vit_medium_patch16_gap_256"),
    *_all("timm", 299, "xception41 inception_v4"),
    *_all("torchvision", 224, "shufflenet_v2_x1_5 googlenet alexnet wide_resnet50_2 "
          "convnext_small"),
    *_all("torchvision", 224, "swin_t convnext_tiny", 4),
    *(Network("torchvision", model, (1, 3, 8, 112, 112)) for model in _OF_CLIPS),
    *_all("timm", 224, "cspnext_tiny hardcorenas_a iformer_t lcnetv2_base cpubone_b0_bfrobust "
          "legacy_seresnext26_32x4d hgnet_tiny efficientformer_l3 lowformer_b0 "
          "dla60_res2next ghostnetv3_100 regnetv_040 vovnet39a starnet_s150 "
          "efficientvim_m1 tf_efficientnet_b0 convnext_nano_ols samvit_base_patch16_224 "
          "vit_small_r26_s32_224 nextvit_base densenetblur121d mobilenetv3_rw"),
    *_all("timm", 256, "sam2_hiera_tiny resnetv2_50d_gn mobilevit_xxs "
          "efficientvit_l1"),
    *_all("timm", 299, "legacy_xception"),
    *_all("smp", 320, "unet_resnet34 unetplusplus_resnet18 fpn_mobilenet_v2 "
          "linknet_resnet18 manet_resnet18 pan_resnet34 deeplabv3plus_timm-mobilenetv3_large_100 "
          "segformer_mit_b0 unet_efficientnet-b0"),
    *_all("smp", 384, "pspnet_resnet34 upernet_resnet18"),
    *_all("timm", 224, "regnetz_b16 nf_resnet50 cs3edgenet_x convmixer_768_32 "
          "mobilenet_edgetpu_v2_s semnasnet_100 tf_mixnet_m res2next50 "
          "eca_nfnet_l0 resnext50d_32x4d vit_small_patch16_dinov3"),
    *_all("smp", 320, "deeplabv3_resnet18 unet_mobilenet_v2"),
    *_all("timm", 224, "efficientnet_b0_gn efficientnet_b0_g8_gn "
          "gmixer_12_224 fbnetv3_b convnext_atto_rms hrnet_w18 twins_pcpvt_small "
          "ese_vovnet19b_dw resnet34d resnetv2_34 mobilenetv3_small_100 coat_mini "
          "vit_base_patch16_siglip_224 inception_next_atto xcit_tiny_12_p8_224 "
          "vit_tiny_r_s16_p8_224"),
    *_all("timm", 240, "crossvit_9_dagger_240"),
    *_all("timm", 224, "gernet_s repvgg_b0 convnext_femto regnety_004 resnetblur50 pvt_v2_b0 "
          "hiera_small_224 mvitv2_small tiny_vit_5m_224 ghostnet_130 pit_s_224 starnet_s3 "
          "mambaout_kobe visformer_small levit_conv_256 convit_small efficientvit_b2 fasternet_s "
          "gcvit_xtiny rexnetr_200 resnet50_gn mobileone_s3 efficientformerv2_s2 "
          "vit_base_patch16_clip_224"),
    *_all("timm", 256, "seresnet33ts vit_wee_patch16_reg1_gap_256 mobilevitv2_050 "
          "swinv2_tiny_window8_256 edgenext_base maxvit_rmlp_pico_rw_256"),
    *_all("timm", 256, "mobilenetv5_base botnet26t_256 regnetz_c16 darknet53 "
          "fastvit_sa12 mobilenetv4_conv_medium mobilevitv2_100 "
          "cs3darknet_focus_s"),
    *_all("timm", 224, "efficientnet_cc_b0_4e hrnet_w32 mobilenetv1_100 "
          "swiftformer_s vit_small_patch16_rope_224 hgnetv2_b4 convnextv2_nano "
          "selecsls60 xcit_small_12_p8_224 pvt_v2_b2_li focalnet_small_lrf shvit_s3 "
          "efficientvit_m5 mobileone_s4 resmlp_24_224 mixer_b16_224 levit_384 nest_small_jx "
          "deit3_medium_patch16_224"),
    *_all("timm", 240, "crossvit_15_dagger_240 flexivit_small"),
    *_all("timm", 256, "edgenext_xx_small fastvit_mci1 "
          "mobilenetv4_conv_large"),
    *(Network("torchvision", model, (1, 3, 16, 224, 224)) for model in _OF_LONG_CLIPS),
    *_all("transformers", 512, "sam_tower"),
    *_all("transformers", 320, "detr_r18"),
    Network("transformers", "whisper_tiny", (1, 80, 3000)),
    Network("transformers", "wav2vec2_small", (1, 16000)),
    *_all("ultralytics", 320, "yolov3-tiny yolov6n yolov9t yolov8n-p2 yolov8n-ghost"),
    *_all("transformers", 512, "mobilevit_deeplab"),
    *_all("transformers", 384, "dpt_small"),
    *(Network("own", model, shape) for model, shape in own.SHAPES.items()
      if model not in ("unet", "lstm", "gru")),
)  # fmt: skip
# Larger ones, at the sizes of images that robots' detectors see, and batches of small ones.
LARGE = (
    *_all("ultralytics", 640, "yolov8n yolov8s yolov8m yolov8l yolov5m yolov9c yolov10m yolo11n "
          "yolo11s yolo11m yolo12s yolo26m"),
    *_all("torchvision", 512, " ".join(_SEGMENTERS)),
    *_all("torchvision", 224, "convnext_base swin_b vit_b_32 regnet_y_16gf"),
    *_all("torchvision", 384, "efficientnet_b4 efficientnet_v2_m"),
    *_all("torchvision", 224, "mobilenet_v3_large efficientnet_b0 resnet18 shufflenet_v2_x1_0 "
          "regnet_y_400mf mnasnet1_0", 16),
    *_all("timm", 224, "caformer_s36 convnextv2_base coatnet_2_rw_224 maxvit_small_tf_224 "
          "repvit_m2_3 tresnet_l seresnet152d dm_nfnet_f0 eva02_base_patch14_224 resnetv2_101 "
          "inception_resnet_v2 pvt_v2_b3 xcit_small_12_p16_224 davit_base focalnet_base_srf"),
    *_all("timm", 256, "fastvit_sa24 swinv2_base_window8_256 regnety_032"),
    *_all("transformers", 1024, "segformer_b0"),
    *_all("transformers", 518, "depth_anything_small"),
    *(Network("own", model, (1, 3, 512, 512)) for model in ("unet", "style_transfer")),
    Network("own", "super_resolution", (1, 3, 360, 640)),
)  # fmt: skip
NETWORKS = (*CORE, *MORE, *LARGE)
