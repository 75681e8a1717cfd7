/*!
 * \file cache_file.h
 * \brief Files in the user's cache folder, guarded by a checksum.
 */
#ifndef TVM_VISION_VULKAN_CACHE_FILE_H_
#define TVM_VISION_VULKAN_CACHE_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tvm_vision {
namespace vulkan {

/*! \brief CRC-32 with the polynomial of ISO 3309 (as in PNG and zip). */
uint32_t Crc32(const void* data, size_t bytes);

/*!
 * \brief Payload of a cache file; empty when there is none, or it is no plain file, larger than
 * 256 MiB, foreign or damaged.
 *
 * A file that has not been used for a day counts as new again; see KeepNewest.
 */
std::vector<uint8_t> ReadCacheFile(const std::string& path);

/*! \brief Replace a cache file in one step; quietly does nothing where the folder cannot be
 * written. */
void WriteCacheFile(const std::string& path, const std::vector<uint8_t>& payload);

/*! \brief Remove what killed processes left of files whose names begin with `prefix`, and nothing
 * that another process is writing. */
void RemoveLeftovers(const std::filesystem::path& folder, const std::string& prefix);

/*!
 * \brief Remove all files of a folder whose names begin with `prefix` but the `count` newest.
 *
 * One of a time to come, written while the clock was wrong, is older than all others.
 */
void KeepNewest(const std::filesystem::path& folder, const std::string& prefix, size_t count);

}  // namespace vulkan
}  // namespace tvm_vision

#endif  // TVM_VISION_VULKAN_CACHE_FILE_H_
