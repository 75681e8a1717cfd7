"""What each function of Vulkan that this library calls may return, beside VK_SUCCESS.

By the registry of the specification (vk.xml 1.3.239, successcodes and errorcodes of each command),
with which test_faults.py compares it where Debian's libvulkan-dev has put that.
"""

from __future__ import annotations

VALUES = {
    "VK_NOT_READY": 1,
    "VK_TIMEOUT": 2,
    "VK_INCOMPLETE": 5,
    "VK_ERROR_OUT_OF_HOST_MEMORY": -1,
    "VK_ERROR_OUT_OF_DEVICE_MEMORY": -2,
    "VK_ERROR_INITIALIZATION_FAILED": -3,
    "VK_ERROR_DEVICE_LOST": -4,
    "VK_ERROR_MEMORY_MAP_FAILED": -5,
    "VK_ERROR_LAYER_NOT_PRESENT": -6,
    "VK_ERROR_EXTENSION_NOT_PRESENT": -7,
    "VK_ERROR_FEATURE_NOT_PRESENT": -8,
    "VK_ERROR_INCOMPATIBLE_DRIVER": -9,
    "VK_ERROR_TOO_MANY_OBJECTS": -10,
    "VK_ERROR_FRAGMENTED_POOL": -12,
    "VK_ERROR_OUT_OF_POOL_MEMORY": -1000069000,
    "VK_ERROR_INVALID_EXTERNAL_HANDLE": -1000072003,
    "VK_ERROR_FRAGMENTATION": -1000161000,
    "VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS": -1000257000,
    "VK_ERROR_INVALID_SHADER_NV": -1000012000,
    "VK_PIPELINE_COMPILE_REQUIRED": 1000297000,
}

_MORE = {
    "vkCreateInstance": "ERROR_INITIALIZATION_FAILED ERROR_LAYER_NOT_PRESENT "
    "ERROR_EXTENSION_NOT_PRESENT ERROR_INCOMPATIBLE_DRIVER",
    "vkEnumerateInstanceVersion": "",
    "vkEnumerateInstanceLayerProperties": "INCOMPLETE",
    "vkEnumeratePhysicalDevices": "INCOMPLETE ERROR_INITIALIZATION_FAILED",
    "vkEnumerateDeviceExtensionProperties": "INCOMPLETE ERROR_LAYER_NOT_PRESENT",
    "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT": "INCOMPLETE",
    "vkCreateDevice": "ERROR_INITIALIZATION_FAILED ERROR_EXTENSION_NOT_PRESENT "
    "ERROR_FEATURE_NOT_PRESENT ERROR_TOO_MANY_OBJECTS ERROR_DEVICE_LOST",
    "vkDeviceWaitIdle": "ERROR_DEVICE_LOST",
    "vkQueueSubmit": "ERROR_DEVICE_LOST",
    "vkAllocateMemory": "ERROR_INVALID_EXTERNAL_HANDLE ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
    "vkMapMemory": "ERROR_MEMORY_MAP_FAILED",
    "vkCreateBuffer": "ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
    "vkBindBufferMemory": "ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS",
    "vkCreateCommandPool": "",
    "vkResetCommandPool": "",
    "vkAllocateCommandBuffers": "",
    "vkBeginCommandBuffer": "",
    "vkEndCommandBuffer": "",
    "vkCreateQueryPool": "",
    "vkGetQueryPoolResults": "NOT_READY ERROR_DEVICE_LOST",
    "vkCreateSemaphore": "",
    "vkWaitSemaphores": "TIMEOUT ERROR_DEVICE_LOST",
    "vkGetSemaphoreCounterValue": "ERROR_DEVICE_LOST",
    "vkCreateShaderModule": "ERROR_INVALID_SHADER_NV",
    "vkCreateDescriptorSetLayout": "",
    "vkCreatePipelineLayout": "",
    "vkCreateComputePipelines": "PIPELINE_COMPILE_REQUIRED ERROR_INVALID_SHADER_NV",
    "vkCreatePipelineCache": "",
    "vkGetPipelineCacheData": "INCOMPLETE",
    "vkCreateDescriptorPool": "ERROR_FRAGMENTATION",
    "vkAllocateDescriptorSets": "ERROR_FRAGMENTED_POOL ERROR_OUT_OF_POOL_MEMORY",
    "vkGetCalibratedTimestampsEXT": "",
    "vkCreateDebugUtilsMessengerEXT": "",
}
# Each has these, but for those that need no memory of the one kind.
_ALWAYS = ("VK_ERROR_OUT_OF_HOST_MEMORY", "VK_ERROR_OUT_OF_DEVICE_MEMORY")
_ONE_KIND = {
    "vkEnumerateInstanceVersion": _ALWAYS[:1],
    "vkResetCommandPool": _ALWAYS[1:],
    "vkCreateDebugUtilsMessengerEXT": _ALWAYS[:1],
}

RESULTS = {
    name: (*_ONE_KIND.get(name, _ALWAYS), *(f"VK_{code}" for code in more.split()))
    for name, more in _MORE.items()
}
