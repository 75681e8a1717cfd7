/*!
 * \file pipeline_statistics.cc
 * \brief A program that has a driver compile compute shaders, and prints what it says of them.
 *
 * Usage: pipeline_statistics FOLDER < kernels. A line of the input is one kernel, of fields apart
 * by tabs: file of SPIR-V, entry point, storage buffers, bytes of scalars, 1 where these come in a
 * uniform buffer, size of subgroups it counts on or 0, threads of a workgroup along x.
 *
 * The output has a JSON object a line: first the device, then each kernel by its number, with the
 * result of its pipeline (VkResult) and, of every executable of it, the driver's statistics and
 * the files in FOLDER that have its internal representations
 * (VK_KHR_pipeline_executable_properties). A program of its own, as drivers may come with a C
 * library that this process has not.
 */
#define VK_NO_PROTOTYPES
#include <dlfcn.h>
#include <vulkan/vulkan_core.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace {

// VK_KHR_cooperative_matrix came with headers 1.3.255; values of the registered extension.
constexpr const char* kMatrixExtension = "VK_KHR_cooperative_matrix";
struct MatrixFeatures {
  VkStructureType sType = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 matrix = VK_FALSE;
  VkBool32 robust_access = VK_FALSE;
};

[[noreturn]] void Fail(const std::string& line) {
  std::cerr << line << std::endl;
  std::exit(1);
}

void Check(VkResult result, const char* call) {
  if (result != VK_SUCCESS) Fail(std::string(call) + " failed with " + std::to_string(result));
}

/*! \brief Text as a string of JSON. */
std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c >= 0x20 && c < 0x7f) quoted += static_cast<char>(c);
  }
  return quoted + "\"";
}

template <typename T>
T Vulkan(VkStructureType type) {
  T structure{};
  structure.sType = type;
  return structure;
}

/*! \brief All that a function of Vulkan lists, which takes a count and where to write. */
template <typename T, typename List>
std::vector<T> All(VkStructureType type, List list) {
  uint32_t count = 0;
  list(&count, static_cast<T*>(nullptr));
  std::vector<T> found(count, Vulkan<T>(type));
  list(&count, found.data());
  return found;
}

/*! \brief The loader's functions, looked up by name where they are called. */
class Functions {
 public:
  Functions() {
    void* loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (loader == nullptr) Fail(std::string("no Vulkan loader: ") + dlerror());
    get_ = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr"));
  }
  template <typename F>
  F Get(const char* name) const {
    F found = reinterpret_cast<F>(get_(instance, name));
    if (found == nullptr) Fail(std::string("the Vulkan loader has no ") + name);
    return found;
  }
  VkInstance instance = VK_NULL_HANDLE;

 private:
  PFN_vkGetInstanceProcAddr get_;
};
#define VK(functions, name) (functions).Get<PFN_##name>(#name)

struct KernelLine {
  std::string path, entry;
  uint32_t buffers = 0, scalar_bytes = 0, uniform = 0, subgroup = 0, threads_x = 0;
};

/*! \brief The first device, with all that it can do switched on but checked accesses. */
class Device {
 public:
  explicit Device(Functions* functions) : fn(*functions) {
    CreateInstance(functions);
    uint32_t count = 1;
    VK(fn, vkEnumeratePhysicalDevices)(fn.instance, &count, &physical_);
    if (count == 0) Fail("the driver shows no device");
    VK(fn, vkGetPhysicalDeviceProperties)(physical_, &properties_);
    if (properties_.apiVersion < VK_API_VERSION_1_3) Fail("a driver of Vulkan 1.3 is needed");
    ReadExtensions();
    Create();
    PrintDevice();
  }

  const Functions& fn;
  VkDevice vk = VK_NULL_HANDLE;
  VkPhysicalDeviceVulkan13Features features13 = Vulkan<VkPhysicalDeviceVulkan13Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);

 private:
  static void CreateInstance(Functions* functions) {
    auto app = Vulkan<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
    app.apiVersion = VK_API_VERSION_1_3;
    auto info = Vulkan<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
    info.pApplicationInfo = &app;
    Check(VK(*functions, vkCreateInstance)(&info, nullptr, &functions->instance),
          "vkCreateInstance");
  }

  void ReadExtensions() {
    auto list = VK(fn, vkEnumerateDeviceExtensionProperties);
    uint32_t count = 0;
    list(physical_, nullptr, &count, nullptr);
    std::vector<VkExtensionProperties> found(count);
    list(physical_, nullptr, &count, found.data());
    for (const VkExtensionProperties& each : found) {
      std::string name = each.extensionName;
      has_matrix_ |= name == kMatrixExtension;
      has_core_ |= name == VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME;
      has_statistics_ |= name == VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
    }
    if (!has_statistics_) {
      Fail("the driver lacks " VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
    }
  }

  void Create() {
    auto features = Vulkan<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
    auto v11 = Vulkan<VkPhysicalDeviceVulkan11Features>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
    auto v12 = Vulkan<VkPhysicalDeviceVulkan12Features>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
    auto statistics = Vulkan<VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
    MatrixFeatures matrix;
    features.pNext = &v11;
    v11.pNext = &v12;
    v12.pNext = &features13;
    features13.pNext = &statistics;
    if (has_matrix_) statistics.pNext = &matrix;
    VK(fn, vkGetPhysicalDeviceFeatures2)(physical_, &features);
    features.features.robustBufferAccess = VK_FALSE;
    features13.robustImageAccess = VK_FALSE;

    float priority = 1;
    auto queue = Vulkan<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    std::vector<const char*> names{VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME};
    if (has_matrix_) names.push_back(kMatrixExtension);
    auto info = Vulkan<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
    info.pNext = &features;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(names.size());
    info.ppEnabledExtensionNames = names.data();
    Check(VK(fn, vkCreateDevice)(physical_, &info, nullptr, &vk), "vkCreateDevice");
    features13.pNext = nullptr;
  }

  void PrintDevice() const {
    auto more = Vulkan<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
    auto v12 = Vulkan<VkPhysicalDeviceVulkan12Properties>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_PROPERTIES);
    auto core = Vulkan<VkPhysicalDeviceShaderCorePropertiesAMD>(
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD);
    more.pNext = &v12;
    if (has_core_) v12.pNext = &core;
    VK(fn, vkGetPhysicalDeviceProperties2)(physical_, &more);
    std::cout << "{\"device\": " << Quoted(properties_.deviceName)
              << ", \"driver\": " << Quoted(std::string(v12.driverName) + " " + v12.driverInfo);
    if (has_core_) {
      uint32_t units = core.shaderEngineCount * core.shaderArraysPerEngineCount *
                       core.computeUnitsPerShaderArray;
      std::cout << ", \"core\": {\"units\": " << units << ", \"simds\": " << core.simdPerComputeUnit
                << ", \"waves\": " << core.wavefrontsPerSimd << ", \"wave\": " << core.wavefrontSize
                << ", \"vgprs\": " << core.vgprsPerSimd
                << ", \"vgpr_granule\": " << core.vgprAllocationGranularity << "}";
    }
    std::cout << "}\n";
  }

  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
  bool has_matrix_ = false;
  bool has_core_ = false;
  bool has_statistics_ = false;
};

std::vector<char> ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) Fail("'" + path + "' cannot be read");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

VkPipelineLayout CreateLayout(const Device& device, const KernelLine& kernel) {
  std::vector<VkDescriptorSetLayoutBinding> bindings(kernel.buffers + kernel.uniform);
  for (uint32_t i = 0; i < bindings.size(); ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType =
        i < kernel.buffers ? VK_DESCRIPTOR_TYPE_STORAGE_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  auto set_info =
      Vulkan<VkDescriptorSetLayoutCreateInfo>(VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
  set_info.bindingCount = static_cast<uint32_t>(bindings.size());
  set_info.pBindings = bindings.data();
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  Check(VK(device.fn, vkCreateDescriptorSetLayout)(device.vk, &set_info, nullptr, &set),
        "vkCreateDescriptorSetLayout");
  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel.scalar_bytes};
  auto info = Vulkan<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  info.setLayoutCount = 1;
  info.pSetLayouts = &set;
  info.pushConstantRangeCount = kernel.scalar_bytes != 0 && kernel.uniform == 0 ? 1 : 0;
  info.pPushConstantRanges = &range;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  Check(VK(device.fn, vkCreatePipelineLayout)(device.vk, &info, nullptr, &layout),
        "vkCreatePipelineLayout");
  return layout;
}

/*! \brief As the runtime makes it (vulkan/csrc/pipeline.cc). */
VkResult CreatePipeline(const Device& device, const KernelLine& kernel, VkPipeline* pipeline) {
  std::vector<char> code = ReadFile(kernel.path);
  auto module_info = Vulkan<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  module_info.codeSize = code.size();
  module_info.pCode = reinterpret_cast<const uint32_t*>(code.data());
  auto info = Vulkan<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  VkResult result =
      VK(device.fn, vkCreateShaderModule)(device.vk, &module_info, nullptr, &info.stage.module);
  if (result != VK_SUCCESS) return result;
  auto subgroup = Vulkan<VkPipelineShaderStageRequiredSubgroupSizeCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO);
  subgroup.requiredSubgroupSize = kernel.subgroup;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = kernel.entry.c_str();
  info.layout = CreateLayout(device, kernel);
  info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
               VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  if (kernel.subgroup != 0 && device.features13.subgroupSizeControl) {
    info.stage.pNext = &subgroup;
    if (device.features13.computeFullSubgroups && kernel.threads_x % kernel.subgroup == 0) {
      info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    }
  }
  return VK(device.fn, vkCreateComputePipelines)(device.vk, VK_NULL_HANDLE, 1, &info, nullptr,
                                                 pipeline);
}

std::string Value(const VkPipelineExecutableStatisticKHR& statistic) {
  std::ostringstream text;
  switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
      text << (statistic.value.b32 ? "true" : "false");
      break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      text << statistic.value.i64;
      break;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      text << statistic.value.u64;
      break;
    default:
      text << statistic.value.f64;
  }
  return text.str();
}

void PrintStatistics(const Device& device, const VkPipelineExecutableInfoKHR& executable) {
  auto get = VK(device.fn, vkGetPipelineExecutableStatisticsKHR);
  auto found = All<VkPipelineExecutableStatisticKHR>(
      VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR,
      [&](uint32_t* count, auto* into) { get(device.vk, &executable, count, into); });
  std::cout << ", \"statistics\": {";
  for (size_t i = 0; i < found.size(); ++i) {
    std::cout << (i ? ", " : "") << Quoted(found[i].name) << ": " << Value(found[i]);
  }
  std::cout << "}";
}

/*! \brief Write the representations to files that begin with `path`, and print which. */
void PrintRepresentations(const Device& device, const VkPipelineExecutableInfoKHR& executable,
                          const std::string& path) {
  auto get = VK(device.fn, vkGetPipelineExecutableInternalRepresentationsKHR);
  auto found = All<VkPipelineExecutableInternalRepresentationKHR>(
      VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR,
      [&](uint32_t* count, auto* into) { get(device.vk, &executable, count, into); });
  std::vector<std::vector<char>> texts;
  for (auto& each : found) {
    texts.emplace_back(each.dataSize + 1);
    each.pData = texts.back().data();
  }
  uint32_t count = static_cast<uint32_t>(found.size());
  get(device.vk, &executable, &count, found.data());
  std::cout << ", \"representations\": {";
  for (uint32_t i = 0; i < count; ++i) {
    std::string file = path + "." + std::to_string(i) + ".txt";
    std::ofstream(file) << texts[i].data();
    std::cout << (i ? ", " : "") << Quoted(found[i].name) << ": " << Quoted(file);
  }
  std::cout << "}";
}

void PrintExecutables(const Device& device, VkPipeline pipeline, const std::string& path) {
  auto get = VK(device.fn, vkGetPipelineExecutablePropertiesKHR);
  auto info = Vulkan<VkPipelineInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR);
  info.pipeline = pipeline;
  auto found = All<VkPipelineExecutablePropertiesKHR>(
      VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR,
      [&](uint32_t* count, auto* into) { get(device.vk, &info, count, into); });
  std::cout << ", \"executables\": [";
  for (uint32_t i = 0; i < found.size(); ++i) {
    auto executable =
        Vulkan<VkPipelineExecutableInfoKHR>(VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR);
    executable.pipeline = pipeline;
    executable.executableIndex = i;
    std::cout << (i ? ", " : "") << "{\"name\": " << Quoted(found[i].name)
              << ", \"subgroup\": " << found[i].subgroupSize;
    PrintStatistics(device, executable);
    PrintRepresentations(device, executable, path + "." + std::to_string(i));
    std::cout << "}";
  }
  std::cout << "]";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) Fail("usage: pipeline_statistics FOLDER < kernels");
  Functions functions;
  Device device(&functions);
  std::string line;
  for (uint32_t number = 0; std::getline(std::cin, line); ++number) {
    KernelLine kernel;
    std::istringstream fields(line);
    std::getline(fields, kernel.path, '\t');
    std::getline(fields, kernel.entry, '\t');
    fields >> kernel.buffers >> kernel.scalar_bytes >> kernel.uniform >> kernel.subgroup >>
        kernel.threads_x;
    if (!fields) Fail("line " + std::to_string(number + 1) + " of the kernels is cut");
    VkPipeline pipeline = VK_NULL_HANDLE;
    auto start = std::chrono::steady_clock::now();
    VkResult result = CreatePipeline(device, kernel, &pipeline);
    std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    std::cout << "{\"kernel\": " << number << ", \"result\": " << result
              << ", \"seconds\": " << spent.count();
    if (result == VK_SUCCESS) {
      PrintExecutables(device, pipeline, std::string(argv[1]) + "/" + std::to_string(number));
    }
    // At once: a driver that ends the process does so at the kernel after the last line.
    std::cout << "}" << std::endl;
  }
  return 0;
}
