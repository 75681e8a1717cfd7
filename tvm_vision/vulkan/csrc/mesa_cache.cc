#include "mesa_cache.h"

#include <sys/statvfs.h>

#include <cstdint>
#include <cstdlib>
#include <string>

namespace tvm_vision {
namespace vulkan {

namespace {

/*! \brief Of Mesa's index, 1.3 MB, of newer Mesa's two files, and of some entries. */
constexpr uint64_t kNeeded = 16u << 20;
constexpr const char* kSwitch = "MESA_SHADER_CACHE_DISABLE";

std::string Said(const Environment& environment, const char* variable) {
  const char* text = environment(variable);
  return text == nullptr ? "" : text;
}

/*! \brief Where Mesa keeps it, or a folder above; "" where it keeps none. */
std::string CacheFolder(const Environment& environment) {
  if (std::string chosen = Said(environment, "MESA_SHADER_CACHE_DIR"); !chosen.empty()) {
    return chosen;
  }
  if (std::string chosen = Said(environment, "XDG_CACHE_HOME"); !chosen.empty()) return chosen;
  std::string home = Said(environment, "HOME");
  return home.empty() ? "" : home + "/.cache";
}

}  // namespace

bool MesaCacheHasRoom(const Environment& environment) {
  std::string folder = CacheFolder(environment);
  struct statvfs system{};
  // What is not there yet lies where the folder above it does.
  while (!folder.empty() && statvfs(folder.c_str(), &system) != 0) {
    folder.resize(folder.find_last_of('/') == std::string::npos ? 0 : folder.find_last_of('/'));
  }
  return folder.empty() || uint64_t{system.f_bavail} * system.f_frsize >= kNeeded;
}

void SpareMesaCacheWithoutRoom() {
  if (!MesaCacheHasRoom(ProcessEnvironment)) setenv(kSwitch, "true", 0);
}

}  // namespace vulkan
}  // namespace tvm_vision
