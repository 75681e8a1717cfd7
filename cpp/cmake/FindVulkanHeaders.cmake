# Vulkan's types alone: the loader is opened when a network wants a GPU.
find_path(VULKAN_HEADERS_DIR vulkan/vulkan_core.h)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(VulkanHeaders REQUIRED_VARS VULKAN_HEADERS_DIR
  REASON_FAILURE_MESSAGE "vulkan/vulkan_core.h is needed: apt install libvulkan-dev")
if(VulkanHeaders_FOUND AND NOT TARGET VulkanHeaders::VulkanHeaders)
  add_library(VulkanHeaders::VulkanHeaders INTERFACE IMPORTED)
  set_target_properties(VulkanHeaders::VulkanHeaders PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${VULKAN_HEADERS_DIR}")
endif()
