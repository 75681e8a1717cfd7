/*!
 * \file cpu_threads.h
 * \brief How many threads share a kernel on the processor: one for each core.
 */
#ifndef TVM_VISION_RUNTIME_CPU_THREADS_H_
#define TVM_VISION_RUNTIME_CPU_THREADS_H_

namespace tvm_vision {
namespace runtime {

/*! \brief To be called by a thread before it calls kernels: all cores share them from then on;
 * after a fork, in the child, that thread computes alone. */
void UseAllCores();

}  // namespace runtime
}  // namespace tvm_vision

#endif  // TVM_VISION_RUNTIME_CPU_THREADS_H_
