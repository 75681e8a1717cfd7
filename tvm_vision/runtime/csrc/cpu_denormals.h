/*!
 * \file cpu_denormals.h
 * \brief Denormal numbers count as zeros while kernels run on the processor.
 *
 * x86 takes some 150 cycles for an operation that gives a denormal number or multiplies one, where
 * others take half of one. Sigmoids and softmaxes of large numbers give many: e^-x is denormal from
 * 87.4 to 103.3.
 */
#ifndef TVM_VISION_RUNTIME_CPU_DENORMALS_H_
#define TVM_VISION_RUNTIME_CPU_DENORMALS_H_

namespace tvm_vision {
namespace runtime {

/*! \brief As long as it lives, for the thread that made it; then that thread's mode is what it was.
 * Nothing where a processor is not x86, or where TVM_VISION_DENORMALS says that they are kept. */
class DenormalsAsZeros {
 public:
  explicit DenormalsAsZeros(bool keep);
  ~DenormalsAsZeros();
  DenormalsAsZeros(const DenormalsAsZeros&) = delete;
  DenormalsAsZeros& operator=(const DenormalsAsZeros&) = delete;

  /*! \brief The same for the threads that share this thread's kernels, from here on, or no longer.
   * They are TVM's, and begin with the mode of the thread that needs them first, or before, with
   * another. */
  static void OfSharers(bool keep);

 private:
  bool keep_;
  unsigned before_ = 0;
};

}  // namespace runtime
}  // namespace tvm_vision

#endif  // TVM_VISION_RUNTIME_CPU_DENORMALS_H_
