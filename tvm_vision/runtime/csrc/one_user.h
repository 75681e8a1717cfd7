/*!
 * \file one_user.h
 * \brief Notices that two threads use one executor at a time. Pure: no Vulkan.
 *
 * Threads may take turns: one submits, another waits. Two things are refused: a call that begins
 * while another one runs, and a turn whose input, or output, is no longer what the thread put there
 * itself, because another one came between. Both would give one thread the other one's results.
 */
#ifndef TVM_VISION_RUNTIME_ONE_USER_H_
#define TVM_VISION_RUNTIME_ONE_USER_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "vulkan/csrc/error.h"

namespace tvm_vision {
namespace runtime {

/*! \brief A number that no other thread of the process has or had. */
inline uint64_t ThisThread() {
  static std::atomic<uint64_t> threads{0};
  thread_local const uint64_t number = ++threads;
  return number;
}

/*! \brief One call at a time. */
class OneCall {
 public:
  /*! \brief A call from here to the end of the block; raises InputError while another one runs. */
  class Scope {
   public:
    Scope(OneCall* calls, const char* name) : calls_(calls) {
      const char* running = nullptr;
      if (calls->running_.compare_exchange_strong(running, name, std::memory_order_acquire)) return;
      TVM_VISION_THROW(InputError)
          << "an executor serves one thread at a time, and " << name
          << " was called while another thread was in " << running
          << "; make an executor for each thread, of one library, or take turns with a lock";
    }
    ~Scope() { calls_->running_.store(nullptr, std::memory_order_release); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OneCall* calls_;
  };

 private:
  std::atomic<const char*> running_{nullptr};
};

/*! \brief Whose an input or the outputs are, and which threads' were replaced. For use in a call.
 */
class Turns {
 public:
  /*! \brief What is there now is this thread's. */
  void Take() {
    uint64_t thread = ThisThread();
    if (thread == owner_ && replaced_.empty()) return;
    Forget(thread);
    if (owner_ != 0 && owner_ != thread) {
      // A bound for programs with a new thread for each frame.
      if (replaced_.size() >= kMostThreads) replaced_.erase(replaced_.begin());
      replaced_.push_back(owner_);
    }
    owner_ = thread;
  }
  /*! \brief It has served: who comes next replaces nothing. */
  void Used() { owner_ = 0; }
  /*! \brief Whether this thread's was replaced since it took it. */
  bool Replaced() const {
    return !replaced_.empty() &&
           std::find(replaced_.begin(), replaced_.end(), ThisThread()) != replaced_.end();
  }

 private:
  static constexpr size_t kMostThreads = 64;

  void Forget(uint64_t thread) {
    replaced_.erase(std::remove(replaced_.begin(), replaced_.end(), thread), replaced_.end());
  }

  uint64_t owner_ = 0;
  std::vector<uint64_t> replaced_;
};

}  // namespace runtime
}  // namespace tvm_vision

#endif  // TVM_VISION_RUNTIME_ONE_USER_H_
