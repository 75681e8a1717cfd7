#include "recovering.h"

#include <cmath>
#include <cstdio>

#include "guarded.h"
#include "opening.h"

namespace tvm_vision {

namespace ffi = tvm::ffi;

namespace {

using Clock = std::chrono::steady_clock;
// Between two attempts: the reset of a GPU takes about that long.
constexpr std::chrono::seconds kPause{1};
constexpr std::chrono::minutes kMinute{1};
constexpr int kMostAMinute = 60;
constexpr const char* kFunctions[] = {"write_input", "run", "get_output"};

[[noreturn]] void Lost(const std::string& words) { throw Error("DeviceLostError", words); }

}  // namespace

void CheckRecovery(const Recovery& recovery) {
  double seconds = recovery.frame_timeout;
  if (!std::isfinite(seconds) || seconds < 0) {
    char found[32];
    std::snprintf(found, sizeof(found), std::isfinite(seconds) ? "%.6g" : "%g", seconds);
    throw Error("InputError", std::string("frame_timeout must be 0 or more seconds, found ") +
                                  found + "; 0 sets no limit");
  }
  int most = recovery.rebuilds_per_minute;
  if (most < 0 || most > kMostAMinute) {
    throw Error("InputError", "rebuilds_per_minute must be 0 to " + std::to_string(kMostAMinute) +
                                  ", found " + std::to_string(most));
  }
}

std::string Losses::Describe() const {
  if (lost == 0) return "";
  char anew[64];
  std::snprintf(anew, sizeof(anew), "loaded anew in %.2f s", seconds);
  std::string now = on_fallback ? "the fallback runs" : waiting ? "it is not back yet" : anew;
  std::string times = lost == 1 ? "once" : std::to_string(lost) + " times";
  return "the device was lost " + times + ", " + now + ": " + reason;
}

Attempts::Turn Attempts::Next() {
  Clock::time_point now = Clock::now();
  while (!times_.empty() && now - times_.front() >= kMinute) times_.pop_front();
  if (times_.size() >= most_) return Turn::kSpent;
  if (!times_.empty() && now - times_.back() < kPause) return Turn::kLater;
  times_.push_back(now);
  return Turn::kNow;
}

RecoveringExecutor::RecoveringExecutor(Parts parts, const Recovery& recovery,
                                       std::function<Parts()> fallback)
    : parts_(std::move(parts)),
      recovery_(recovery),
      fallback_(std::move(fallback)),
      attempts_(recovery.rebuilds_per_minute) {
  Open();
}

void RecoveringExecutor::Open() {
  Guarded([&] {
    auto create = ffi::Function::GetGlobalRequired("tvm_vision.graph_executor.create");
    module_ = create(ffi::String(parts_.json), parts_.library, parts_.device).cast<ffi::Module>();
    auto method = [&](const char* name) { return *(*module_)->GetFunction(ffi::String(name)); };
    method("set_time_limit")(static_cast<int64_t>(std::llround(1e9 * recovery_.frame_timeout)));
    LoadWeights(method("load_params"));
    method("prepare")();
    for (const char* name : kFunctions) functions_[name] = method(name);
  });
}

void RecoveringExecutor::LoadWeights(const ffi::Function& load_params) {
  if (parts_.package.has_value()) {
    // Not held for the day that they are needed again: they lie on the device.
    Package package = std::move(*parts_.package);
    parts_.package.reset();
    load_params(Weights(package));
    return;
  }
  Package again = ReadPackage(parts_.origin);
  if (again.info() != parts_.json) {
    throw Error("PackageError", "the package that was loaded is needed again, and '" +
                                    parts_.origin.path +
                                    "' is another by now: load the network anew");
  }
  load_params(Weights(again));
}

void RecoveringExecutor::Close() {
  functions_.clear();
  module_.reset();
}

ffi::Any RecoveringExecutor::Do(const std::string& name, const Work& work) const {
  return Guarded([&] { return work(functions_.at(name)); });
}

ffi::Any RecoveringExecutor::Invoke(const std::string& name, const Work& work) {
  if (losses_.waiting) {
    Recover(losses_.reason);
    // Nothing of a frame is lost: it begins here.
    if (name == "write_input") return Do(name, work);
    Lost(losses_.Describe() + "; set the inputs of a frame anew");
  }
  std::string reason;
  try {
    return Do(name, work);
  } catch (const Error& error) {
    if (error.kind() != "DeviceLostError") throw;
    reason = error.what();
  }
  ++losses_.lost;
  losses_.reason = reason;
  Recover(reason);
  std::string now = losses_.Describe();
  Lost(reason + "; " + now.substr(0, now.find(':')) + ": give the frame anew");
}

void RecoveringExecutor::Recover(const std::string& reason) {
  Attempts::Turn turn = losses_.on_fallback ? Attempts::Turn::kSpent : attempts_.Next();
  // Its memory goes before the new one takes as much.
  Close();
  losses_.waiting = true;
  if (turn == Attempts::Turn::kNow) {
    Reopen(reason);
  } else if (turn == Attempts::Turn::kLater) {
    Lost("the device is lost and opened anew in a moment: " + reason);
  } else if (fallback_) {
    FallBack();
  } else {
    Lost("the device is lost for now, it was opened " +
         std::to_string(recovery_.rebuilds_per_minute) + " times within a minute: " + reason);
  }
}

void RecoveringExecutor::Reopen(const std::string& reason) {
  Clock::time_point start = Clock::now();
  try {
    Opening(kFirstDevice, parts_.origin.opening_timeout).Wait();
    Open();
    EndVulkanFirst();  // with the device its driver was loaded anew
  } catch (const Error& error) {
    Close();
    if (error.kind() != "DeviceError" && error.kind() != "DeviceLostError") throw;
    Lost("the device was lost (" + reason + "), and cannot be opened anew: " + error.what());
  }
  losses_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  ++losses_.rebuilt;
  losses_.waiting = false;
}

void RecoveringExecutor::FallBack() {
  parts_ = fallback_();
  Open();
  losses_.on_fallback = true;
  losses_.waiting = false;
}

}  // namespace tvm_vision
