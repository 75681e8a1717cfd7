/*!
 * \file folder_names.h
 * \brief What lies in a folder.
 *
 * In place of what std::filesystem has, which asks for memory in a function that lets no
 * exception pass.
 */
#ifndef TVM_VISION_VULKAN_FOLDER_NAMES_H_
#define TVM_VISION_VULKAN_FOLDER_NAMES_H_

#include <dirent.h>

#include <memory>
#include <string>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief Names of the files and folders in a folder, in any order; none where it cannot be read.
 */
inline std::vector<std::string> FolderNames(const std::string& folder) {
  struct Close {
    void operator()(DIR* opened) const { closedir(opened); }
  };
  std::vector<std::string> names;
  std::unique_ptr<DIR, Close> opened(opendir(folder.c_str()));
  if (!opened) return names;
  while (const dirent* entry = readdir(opened.get())) {
    std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(std::move(name));
  }
  return names;
}

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_FOLDER_NAMES_H_
