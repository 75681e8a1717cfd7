/*!
 * \file recovering.h
 * \brief An executor that outlives its device: what is lost is loaded anew, or on the CPU; the
 * rules and words of tvm_vision/runtime/recovering.py.
 */
#ifndef TVM_VISION_CPP_RECOVERING_H_
#define TVM_VISION_CPP_RECOVERING_H_

#include <tvm/ffi/function.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tvm_vision/tvm_vision.hpp>
#include <utility>

#include "loading.h"

namespace tvm_vision {

/*! \brief Throws InputError for numbers out of range. */
void CheckRecovery(const Recovery& recovery);

/*! \brief At most so many a minute, and not one right after the other. */
class Attempts {
 public:
  enum class Turn { kNow, kLater, kSpent };

  explicit Attempts(int per_minute) : most_(per_minute) {}
  /*! \brief Whether one may be made now; kNow counts it. */
  Turn Next();

 private:
  size_t most_;
  std::deque<std::chrono::steady_clock::time_point> times_;
};

/*! \brief A network's executor, and what becomes of it where its device is lost. */
class RecoveringExecutor {
 public:
  /*! \brief fallback: gives the parts of what runs where nothing else helps, or nothing. */
  RecoveringExecutor(Parts parts, const Recovery& recovery, std::function<Parts()> fallback);

  /*! \brief Call a function of the executor's. Throws Error; a device that was lost is opened anew
   * meanwhile, or the fallback takes its place. */
  template <typename... Arguments>
  tvm::ffi::Any Call(const char* name, Arguments... arguments) {
    return Invoke(name, [&](const tvm::ffi::Function& function) { return function(arguments...); });
  }

  /*! \brief Do what makes a frame as a whole, once more where its device was lost meanwhile. */
  template <typename Work>
  auto RunAgainIfLost(Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const Error& error) {
      if (error.kind() != "DeviceLostError" || losses_.waiting) throw;
    }
    return work();
  }

  const Losses& losses() const { return losses_; }
  const std::string& described() const { return parts_.described; }

 private:
  using Work = std::function<tvm::ffi::Any(const tvm::ffi::Function&)>;
  tvm::ffi::Any Invoke(const std::string& name, const Work& work);
  tvm::ffi::Any Do(const std::string& name, const Work& work) const;
  /*! \brief Make the executor: weights and all. */
  void Open();
  void Close();
  void LoadWeights(const tvm::ffi::Function& load_params);
  void Recover(const std::string& reason);
  void Reopen(const std::string& reason);
  void FallBack();

  Parts parts_;
  Recovery recovery_;
  std::function<Parts()> fallback_;
  Attempts attempts_;
  Losses losses_;
  // Functions of the executor and the executor before the library, in the parts, whose code they
  // call.
  std::optional<tvm::ffi::Module> module_;
  std::map<std::string, tvm::ffi::Function> functions_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_RECOVERING_H_
