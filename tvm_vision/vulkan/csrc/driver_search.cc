#include "driver_search.h"

#include <dlfcn.h>
#include <tvm/ffi/extra/json.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "folder_names.h"
#include "vk_api.h"

namespace tvm_vision {
namespace vulkan {

namespace {

namespace fs = std::filesystem;
namespace ffi = tvm::ffi;

// In the order in which the loader takes them; the second is the older name.
constexpr const char* kVariables[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"};
constexpr size_t kMostBytes = 1 << 20;
/*! \brief The kernel's GPUs, as users open them to compute. */
constexpr const char* kGpuFolder = "/dev/dri";
constexpr const char* kGpuPrefix = "renderD";

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

/*! \brief The library that a driver's file names; empty where it is no such file. */
std::string LibraryPath(const std::string& text) {
  namespace json = ffi::json;
  try {
    json::Object whole = json::Parse(text).cast<json::Object>();
    json::Object icd = whole.at("ICD").cast<json::Object>();
    return std::string(icd.at("library_path").cast<ffi::String>());
  } catch (const std::exception&) {
    return "";
  }
}

/*! \brief The first GPU of the kernel's that this user may not open, where there is none that he
 * may; empty otherwise. */
std::string ClosedGpu() {
  std::string closed;
  for (const std::string& name : FolderNames(kGpuFolder)) {
    if (name.rfind(kGpuPrefix, 0) != 0) continue;
    std::string path = std::string(kGpuFolder) + "/" + name;
    if (access(path.c_str(), R_OK | W_OK) == 0) return "";
    if (closed.empty() || path < closed) closed = path;
  }
  return closed;
}

/*! \brief The files and folders that a variable names. */
std::vector<std::string> Named(const Environment& environment, const char* variable) {
  const char* list = environment(variable);
  std::vector<std::string> parts;
  std::stringstream stream(list == nullptr ? "" : list);
  for (std::string part; std::getline(stream, part, ':');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::string FaultOfDriverFile(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return kNotThere;
  // The loader takes all descriptions of a folder.
  if (fs::is_directory(path, ignored)) return "";
  if (!fs::is_regular_file(path, ignored)) return "is no file";
  if (access(path.c_str(), R_OK) != 0) return "this user may not read";
  std::string library = LibraryPath(ReadText(path));
  if (library.empty()) return "is no description of a driver (JSON with a library_path)";
  // A name alone is searched where libraries are, a relative path from the description.
  if (library.find('/') != std::string::npos && library[0] != '/') {
    library = (fs::path(path).parent_path() / library).string();
  }
  void* driver = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (driver == nullptr)
    return "names the library " + library + ", which " + CannotBeLoaded(library);
  dlclose(driver);
  return "";
}

std::string FaultOfNamedDrivers(const Environment& environment) {
  for (const char* variable : kVariables) {
    std::vector<std::string> paths = Named(environment, variable);
    for (const std::string& path : paths) {
      std::string fault = FaultOfDriverFile(path);
      if (fault.empty()) continue;
      return std::string(variable) + " names " + path + ", which " + fault +
             "; name the JSON file of a driver, or unset it for those that are installed";
    }
    if (!paths.empty()) return "";
  }
  return "";
}

std::string WhyNoDriver(const Environment& environment) {
  std::string fault = FaultOfNamedDrivers(environment);
  if (!fault.empty()) return fault;
  for (const char* variable : kVariables) {
    std::vector<std::string> paths = Named(environment, variable);
    if (paths.empty()) continue;
    return "the Vulkan loader found no device with the drivers that " + std::string(variable) +
           " names (" + paths[0] + "); name another one, or unset it for those that are installed";
  }
  std::string closed = ClosedGpu();
  if (!closed.empty()) {
    return "the Vulkan loader found no driver with a device, and this user may not open " + closed +
           "; add the user to the group render (sudo usermod -aG render $USER) and log in again";
  }
  return "the Vulkan loader found no driver; install mesa-vulkan-drivers (Intel, AMD and the CPU) "
         "or the vendor's driver, and check with tvm-vision doctor";
}

}  // namespace vulkan
}  // namespace tvm_vision
