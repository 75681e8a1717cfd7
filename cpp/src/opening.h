/*!
 * \file opening.h
 * \brief A device that is opened, with a limit: calls of a driver have none of their own. As
 * tvm_vision/vulkan/device.py does it.
 */
#ifndef TVM_VISION_CPP_OPENING_H_
#define TVM_VISION_CPP_OPENING_H_

#include <memory>

namespace tvm_vision {

constexpr int kFirstDevice = 0;
constexpr int kNoDevice = -1;  // only what devices there are is found out

/*! \brief Throws InputError for a number of seconds that is none. */
void CheckOpeningTimeout(double seconds);

/*! \brief One opening, in a thread of its own. What is wrong with the device is told to who uses
 * it. */
class Opening {
 public:
  /*! \brief Begins. seconds: that it may take, 0: any time. An earlier one that took too long and
   * is at it still is waited for instead: it holds what another would need. */
  Opening(int device, double seconds);
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;
  /*! \brief Waits: nothing of a process may end under a driver that is at work. */
  ~Opening();

  /*! \brief Until it is over. Throws DeviceError where the driver does not answer in time; the
   * process then ends without waiting for it. */
  void Wait();

 private:
  struct Work;
  struct Late;
  static Late& AllLate();
  static void LeaveNow(int status, void*);
  bool OverInTime();

  std::shared_ptr<Work> work_;
  int device_;
  double seconds_;
};

}  // namespace tvm_vision

#endif  // TVM_VISION_CPP_OPENING_H_
