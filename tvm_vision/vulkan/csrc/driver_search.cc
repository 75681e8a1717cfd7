#include "driver_search.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <tvm/ffi/extra/json.h>
#include <unistd.h>

#include <algorithm>
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

/*! \brief The files and folders that a variable names, or those that a list does without it. */
std::vector<std::string> Named(const Environment& environment, const char* variable,
                               const char* otherwise = "") {
  const char* list = environment(variable);
  std::vector<std::string> parts;
  std::stringstream stream(list == nullptr || *list == '\0' ? otherwise : list);
  for (std::string part; std::getline(stream, part, ':');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/*! \brief Descriptions of drivers in the system's and this user's folders, as the loader takes them
 * ("Driver Discovery on Linux"). */
std::vector<std::string> InstalledDrivers(const Environment& environment) {
  const char* home = environment("HOME");
  std::vector<std::string> folders = {"/etc"};
  auto add = [&](const char* one, const char* usual_one, const char* many, const char* usual_many) {
    std::string own = home == nullptr ? "" : std::string(home) + usual_one;
    for (std::string& folder : Named(environment, one, own.c_str())) folders.push_back(folder);
    for (std::string& folder : Named(environment, many, usual_many)) folders.push_back(folder);
  };
  add("XDG_CONFIG_HOME", "/.config", "XDG_CONFIG_DIRS", "/etc/xdg");
  add("XDG_DATA_HOME", "/.local/share", "XDG_DATA_DIRS", "/usr/local/share:/usr/share");
  std::vector<std::string> found;
  for (const std::string& folder : folders) {
    for (const std::string& name : FolderNames(folder + "/vulkan/icd.d")) {
      if (fs::path(name).extension() == ".json") found.push_back(folder + "/vulkan/icd.d/" + name);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/*! \brief Why no device came of the drivers that are installed; empty where none is. */
std::string WhyNotInstalled(const Environment& environment) {
  std::vector<std::string> paths = InstalledDrivers(environment);
  if (paths.empty()) return "";
  std::string which = paths[0] + (paths.size() > 1 ? ", ..." : "");
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    // Nor is one loaded to ask why: some end the process where they find no memory.
    return "the Vulkan loader found no device with the drivers that are installed (" + which +
           "), and this process may take no more than " + std::to_string(limit.rlim_cur >> 20) +
           " MiB of address space; raise that limit (ulimit -v, that of its container): a driver "
           "with its compiler takes some hundreds of MiB";
  }
  std::string fault;
  for (const std::string& path : paths) {
    std::string why = FaultOfDriverFile(path);
    if (why.empty()) {
      return "the Vulkan loader found no device with the drivers that are installed (" + which +
             "); install the one of this GPU, or mesa-vulkan-drivers (Intel, AMD and the CPU), and "
             "check with tvm-vision doctor";
    }
    if (fault.empty()) fault = path + ", which " + why;
  }
  return "the Vulkan loader can load no driver: there is " + fault +
         "; install that driver anew, or mesa-vulkan-drivers (Intel, AMD and the CPU), and check "
         "with tvm-vision doctor";
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
  std::string installed = WhyNotInstalled(environment);
  if (!installed.empty()) return installed;
  return "the Vulkan loader found no driver; install mesa-vulkan-drivers (Intel, AMD and the CPU) "
         "or the vendor's driver, and check with tvm-vision doctor";
}

}  // namespace vulkan
}  // namespace tvm_vision
