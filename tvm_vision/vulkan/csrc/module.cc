#include "module.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/json.h>
#include <tvm/ffi/reflection/registry.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <iomanip>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "buffer_registry.h"
#include "cache_file.h"
#include "device_list.h"
#include "kernel_needs.h"
#include "launch_log.h"
#include "refusals.h"

namespace tvm_vision {
namespace vulkan {

namespace ffi = tvm::ffi;

namespace {

constexpr uint32_t kScalarBytes = sizeof(uint64_t);
constexpr uint64_t kFnvPrime = 0x100000001b3;

int AxisOf(const std::string& tag) {
  static const char* names[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z",
                                "threadIdx.x", "threadIdx.y", "threadIdx.z"};
  for (int i = 0; i < 6; ++i) {
    if (tag == names[i]) return i;
  }
  return -1;
}

/*! \brief Words of a shader in hexadecimal, eight a line, where nothing can disassemble them. */
std::string WordListing(const std::vector<uint32_t>& words) {
  std::ostringstream text;
  text << std::hex << std::setfill('0');
  for (size_t i = 0; i < words.size(); ++i) {
    text << "0x" << std::setw(8) << words[i] << (i % 8 == 7 || i + 1 == words.size() ? "\n" : " ");
  }
  return text.str();
}

bool IsHandle(DLDataType type) { return type.code == kDLOpaqueHandle; }

/*! \brief Bits of a scalar as the shader reads them from its 8-byte slot. */
uint64_t ScalarBits(ffi::AnyView value, DLDataType type) {
  uint64_t bits = 0;
  if (type.code == kDLFloat && type.bits == 64) {
    double number = value.cast<double>();
    std::memcpy(&bits, &number, sizeof(number));
  } else if (type.code == kDLFloat) {
    float number = static_cast<float>(value.cast<double>());
    std::memcpy(&bits, &number, sizeof(number));
  } else {
    bits = static_cast<uint64_t>(value.cast<int64_t>());
  }
  return bits;
}

/*! \brief Leave out what is of devices that were lost, which it would keep alive. */
template <typename Value>
void ForgetLost(std::map<const DeviceHandle*, std::shared_ptr<Value>>* by_device) {
  for (auto it = by_device->begin(); it != by_device->end();) {
    // Where there is no value, what failed to be made, the device may be gone.
    bool gone = !it->second || it->first->lost;
    it = gone ? by_device->erase(it) : std::next(it);
  }
}

}  // namespace

PipelineCaches::PipelineCaches(const KernelMap& kernels) {
  for (const auto& [name, record] : kernels) {
    uint32_t crc = Crc32(record.words.data(), record.words.size() * sizeof(uint32_t));
    kernels_ = kernels_ * kFnvPrime + crc;
  }
}

std::shared_ptr<PipelineCache> PipelineCaches::On(Device* device) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (caches_.count(&device->handle()) == 0) ForgetLost(&caches_);
  std::shared_ptr<PipelineCache>& cache = caches_[&device->handle()];
  if (!cache) {
    cache = std::make_shared<PipelineCache>(device->shared_handle(), kernels_);
    device->Keep(cache);
  }
  return cache;
}

Kernel::Kernel(const KernelRecord& record, std::shared_ptr<PipelineCaches> caches)
    : caches_(std::move(caches)) {
  code_.name = record.name;
  code_.words = record.words;
  code_.interface = ReadShaderInterface(record.name, record.words);
  for (DLDataType type : record.arg_types) {
    if (!IsHandle(type)) {
      bool wide_float = type.code == kDLFloat && (type.bits == 32 || type.bits == 64);
      bool integer = type.code == kDLInt || type.code == kDLUInt || type.code == kDLBool;
      if (type.lanes != 1 || (!wide_float && !integer)) {
        TVM_VISION_THROW(DeviceError)
            << "kernel " << record.name << " has a scalar argument of type " << TypeName(type)
            << "; integers, float32 and float64 can be passed: pass others in a tensor";
      }
      scalar_types_.push_back(type);
    } else if (!scalar_types_.empty()) {
      TVM_VISION_THROW(DeviceError)
          << "kernel " << record.name << " has a buffer after a scalar; buffers come first";
    } else {
      ++code_.num_buffers;
    }
  }
  for (const std::string& tag : record.launch_param_tags) extents_.push_back(AxisOf(tag));
  folded_ = (record.flags & kFlagFoldedGrid) != 0;
  code_.scalar_bytes =
      static_cast<uint32_t>(scalar_types_.size() + (folded_ ? 3 : 0)) * kScalarBytes;
  code_.scalars_in_uniform_buffer =
      (record.flags & kFlagScalarsInUniformBuffer) != 0 && code_.scalar_bytes != 0;
  code_.subgroup_size = (record.flags >> kSubgroupSizeShift) & 0xff;
  code_.subgroup_preferred = (record.flags & kFlagPreferredSubgroup) != 0;
}

std::shared_ptr<const Pipeline> Kernel::PipelineOn(Device* device) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (pipelines_.count(&device->handle()) == 0) ForgetLost(&pipelines_);
  std::shared_ptr<const Pipeline>& pipeline = pipelines_[&device->handle()];
  if (!pipeline) {
    std::shared_ptr<PipelineCache> cache = CacheOn(device);
    pipeline = std::make_shared<const Pipeline>(device->shared_handle(), code_, cache->vk());
    cache->MarkChanged();
  }
  return pipeline;
}

std::vector<void*> Kernel::ReadHandles(ffi::PackedArgs args) const {
  std::vector<void*> handles;
  for (uint32_t i = 0; i < code_.num_buffers; ++i) {
    auto tensor = args[static_cast<int>(i)].try_cast<DLTensor*>();
    if (!tensor) {
      handles.push_back(args[static_cast<int>(i)].cast<void*>());
      continue;
    }
    if ((*tensor)->byte_offset != 0) {
      TVM_VISION_THROW(DeviceError)
          << "kernel " << code_.name << " was given a view into a tensor; pass a whole tensor";
    }
    handles.push_back((*tensor)->data);
  }
  return handles;
}

std::vector<uint64_t> Kernel::PackScalars(ffi::PackedArgs args) const {
  std::vector<uint64_t> scalars;
  for (size_t i = 0; i < scalar_types_.size(); ++i) {
    int at = static_cast<int>(code_.num_buffers + i);
    scalars.push_back(ScalarBits(args[at], scalar_types_[i]));
  }
  return scalars;
}

std::array<uint32_t, 3> Kernel::ReadGrid(ffi::PackedArgs args, bool* empty) const {
  std::array<uint32_t, 3> grid{{1, 1, 1}};
  size_t first = code_.num_buffers + scalar_types_.size();
  *empty = false;
  for (size_t i = 0; i < extents_.size(); ++i) {
    int axis = extents_[i];
    if (axis < 0) continue;
    int64_t extent = args[static_cast<int>(first + i)].cast<int64_t>();
    if (axis < 3) {
      if (extent <= 0) *empty = true;
      if (extent > UINT32_MAX) {
        TVM_VISION_THROW(DeviceError) << "kernel " << code_.name << " was launched with " << extent
                                      << " workgroups in one axis; use a smaller tensor";
      }
      grid[axis] = static_cast<uint32_t>(std::max<int64_t>(extent, 0));
    } else if (extent != code_.interface.local_size[axis - 3]) {
      TVM_VISION_THROW(DeviceError)
          << "kernel " << code_.name << " was compiled for workgroups of "
          << code_.interface.local_size[axis - 3] << " invocations in axis " << axis - 3
          << ", but launched with " << extent << "; compile the network again";
    }
  }
  return grid;
}

std::array<uint32_t, 3> Kernel::FoldGrid(const std::array<uint32_t, 3>& grid,
                                         const DeviceSnapshot& snapshot) const {
  const std::array<uint32_t, 3>& limit = snapshot.max_workgroup_count;
  if (!folded_) {
    for (int axis = 0; axis < 3; ++axis) {
      if (grid[axis] <= limit[axis]) continue;
      TVM_VISION_THROW(DeviceError) << "kernel " << code_.name << " was launched with "
                                    << grid[axis] << " workgroups in axis " << axis << "; "
                                    << snapshot.name << " takes at most " << limit[axis];
    }
    return grid;
  }
  uint64_t total = static_cast<uint64_t>(grid[0]) * grid[1] * grid[2];
  auto fold = [](uint64_t count, uint32_t most) {
    return static_cast<uint32_t>(std::min<uint64_t>(count, most));
  };
  auto ceil_div = [](uint64_t a, uint64_t b) { return (a + b - 1) / b; };
  std::array<uint32_t, 3> folded;
  folded[0] = fold(total, std::min(limit[0], 65535u));
  folded[1] = fold(ceil_div(total, folded[0]), std::min(limit[1], 65535u));
  uint64_t deep = ceil_div(total, static_cast<uint64_t>(folded[0]) * folded[1]);
  // The shader counts workgroups in 32 bits.
  if (total > UINT32_MAX || deep > limit[2]) {
    TVM_VISION_THROW(DeviceError) << "kernel " << code_.name << " was launched with " << total
                                  << " workgroups; use a smaller tensor";
  }
  folded[2] = static_cast<uint32_t>(deep);
  return folded;
}

void Kernel::Launch(ffi::PackedArgs args) {
  size_t expected = code_.num_buffers + scalar_types_.size() + extents_.size();
  if (static_cast<size_t>(args.size()) != expected) {
    TVM_VISION_THROW(TypeError) << "kernel " << code_.name << " takes " << expected
                                << " arguments (" << code_.num_buffers << " buffers, "
                                << scalar_types_.size() << " scalars, " << extents_.size()
                                << " launch extents), found " << args.size();
  }
  std::vector<void*> handles = ReadHandles(args);
  bool empty = false;
  std::array<uint32_t, 3> grid = ReadGrid(args, &empty);
  if (empty || handles.empty()) return;
  if (LaunchLog* log = LaunchLog::Current()) {
    log->launches.push_back({code_.name, grid, std::move(handles)});
    return;
  }
  std::shared_ptr<Device> device;
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (void* handle : handles) {
    RegisteredBuffer found = BufferRegistry::Global().Find(handle, code_.name.c_str());
    if (found.device->lost()) {
      TVM_VISION_THROW(DeviceLostError)
          << "kernel " << code_.name << " was given a tensor of " << found.device->snapshot().name
          << ", which was lost; make the tensor anew, the device is opened with it";
    }
    if (device && found.device != device) {
      TVM_VISION_THROW(DeviceError)
          << "kernel " << code_.name << " was given tensors of " << device->snapshot().name
          << " and of " << found.device->snapshot().name << "; copy them to one device";
    }
    if (found.buffer->size() > found.device->snapshot().max_storage_buffer_range) {
      TVM_VISION_THROW(DeviceError)
          << "kernel " << code_.name << " was given a tensor of " << found.buffer->size()
          << " bytes; " << found.device->snapshot().name << " lets a kernel see at most "
          << found.device->snapshot().max_storage_buffer_range
          << " (maxStorageBufferRange): use a smaller batch or image";
    }
    device = std::move(found.device);
    buffers.push_back(std::move(found.buffer));
  }
  std::vector<uint64_t> scalars = PackScalars(args);
  if (folded_) scalars.insert(scalars.end(), grid.begin(), grid.end());
  std::array<uint32_t, 3> dispatch = FoldGrid(grid, device->snapshot());
  std::shared_ptr<const Pipeline> pipeline = PipelineOn(device.get());
  std::shared_ptr<Stream> stream = device->CurrentStream();
  std::lock_guard<std::mutex> guard(device->lock());
  stream->Launch(pipeline, buffers, scalars.data(), dispatch);
}

VulkanModule::VulkanModule(KernelMap kernels, ffi::Map<ffi::String, ffi::String> source)
    : records_(std::move(kernels)), source_(std::move(source)) {
  auto caches = std::make_shared<PipelineCaches>(records_);
  for (const auto& [name, record] : records_) {
    kernels_[name] = std::make_shared<Kernel>(record, caches);
  }
}

ffi::Optional<ffi::Function> VulkanModule::GetFunction(const ffi::String& name) {
  return TellingRefusals([&]() -> ffi::Optional<ffi::Function> {
    auto found = kernels_.find(std::string(name));
    if (found == kernels_.end()) return std::nullopt;
    std::shared_ptr<Kernel> kernel = found->second;
    return ffi::Function::FromPacked([kernel](ffi::PackedArgs args, ffi::Any*) {
      TellingRefusals([&] { kernel->Launch(args); });
    });
  });
}

bool VulkanModule::ImplementsFunction(const ffi::String& name) {
  return kernels_.count(std::string(name)) != 0;
}

ffi::Bytes VulkanModule::SaveToBytes() const { return ffi::Bytes(SerializeKernels(records_)); }

ffi::String VulkanModule::InspectSource(const ffi::String& format) const {
  auto found = source_.find(format);
  if (found != source_.end()) return (*found).second;
  // A module that was loaded has shaders alone.
  if (!format.empty() && format != "spv" && format != "asm") return ffi::String();
  std::optional<ffi::Function> disassemble =
      ffi::Function::GetGlobal("tvm_vision.vulkan.disassemble");
  std::string text;
  for (const auto& [name, record] : records_) {
    text += "; kernel " + name + "\n";
    if (disassemble) {
      ffi::Bytes code(reinterpret_cast<const char*>(record.words.data()),
                      record.words.size() * sizeof(uint32_t));
      text += std::string((*disassemble)(code).cast<ffi::String>());
    } else {
      text += WordListing(record.words);
    }
  }
  return ffi::String(text);
}

std::vector<std::shared_ptr<Kernel>> VulkanModule::Kernels() const {
  std::vector<std::shared_ptr<Kernel>> found;
  for (const auto& [name, kernel] : kernels_) found.push_back(kernel);
  return found;
}

namespace {

void CollectKernels(const ffi::Module& library, std::vector<std::shared_ptr<Kernel>>* found) {
  // By its kind, for TVM's module of LLVM is compiled without what a dynamic_cast looks at.
  if (std::string(library->kind()) == kModuleKind) {
    const auto* own = static_cast<const VulkanModule*>(library.get());
    for (std::shared_ptr<Kernel>& kernel : own->Kernels()) found->push_back(std::move(kernel));
  }
  for (const ffi::Any& imported : library->imports()) {
    CollectKernels(imported.cast<ffi::Module>(), found);
  }
}

/*!
 * \brief The kernels of a library, as pipelines are made of them.
 * \return Of each: "name"; "entry", of the shader; "code", SPIR-V; "local_size"; "buffers" and
 * "scalar_bytes" that it takes; "uniform", whether scalars come in a uniform buffer; "subgroup",
 * the size it counts on, or 0.
 */
ffi::Array<ffi::Map<ffi::String, ffi::Any>> ListKernels(const ffi::Module& library) {
  std::vector<std::shared_ptr<Kernel>> kernels;
  CollectKernels(library, &kernels);
  ffi::Array<ffi::Map<ffi::String, ffi::Any>> found;
  for (const std::shared_ptr<Kernel>& kernel : kernels) {
    const KernelCode& code = kernel->code();
    const auto* bytes = reinterpret_cast<const char*>(code.words.data());
    const auto& size = code.interface.local_size;
    ffi::Map<ffi::String, ffi::Any> fields;
    fields.Set("name", ffi::String(code.name));
    fields.Set("entry", ffi::String(code.interface.entry_point));
    fields.Set("code", ffi::Bytes(bytes, code.words.size() * sizeof(uint32_t)));
    fields.Set("local_size", ffi::Array<int64_t>{size[0], size[1], size[2]});
    fields.Set("buffers", static_cast<int64_t>(code.num_buffers));
    fields.Set("scalar_bytes", static_cast<int64_t>(code.scalar_bytes));
    fields.Set("uniform", code.scalars_in_uniform_buffer);
    fields.Set("subgroup", static_cast<int64_t>(code.subgroup_size));
    found.push_back(fields);
  }
  return found;
}

/*! \brief Threads that are waited for, whatever becomes of the one that started them. */
class Joined {
 public:
  ~Joined() {
    for (std::thread& thread : threads_) thread.join();
  }
  /*! \brief Start up to so many; fewer where the system gives no more. */
  template <typename Work>
  void Start(int64_t count, Work work) {
    try {
      for (int64_t i = 0; i < count; ++i) threads_.emplace_back(work);
    } catch (const std::exception&) {
      // No more are to be had: those there are do all of it.
    }
  }

 private:
  std::vector<std::thread> threads_;
};

}  // namespace

void CheckKernels(const ffi::Module& library, const Device& device) {
  std::vector<std::shared_ptr<Kernel>> kernels;
  CollectKernels(library, &kernels);
  std::vector<const KernelCode*> codes;
  for (const std::shared_ptr<Kernel>& kernel : kernels) codes.push_back(&kernel->code());
  CheckRunnable(device.snapshot(), codes);
}

void PreparePipelines(const ffi::Module& library, const std::shared_ptr<Device>& device,
                      int64_t threads) {
  std::vector<std::shared_ptr<Kernel>> kernels;
  CollectKernels(library, &kernels);
  std::atomic<size_t> next{0};
  auto work = [&] {
    ReadyToThrow();
    for (size_t i = next++; i < kernels.size(); i = next++) {
      try {
        kernels[i]->PipelineOn(device.get());
      } catch (const std::exception&) {
        // The launch meets the same error, where somebody is told.
      }
    }
  };
  {
    Joined others;
    others.Start(std::min<int64_t>(threads, kernels.size()) - 1, work);
    work();
  }
  // At once: a robot is switched off rather than ended.
  std::set<std::shared_ptr<PipelineCache>> caches;
  for (const std::shared_ptr<Kernel>& kernel : kernels)
    caches.insert(kernel->CacheOn(device.get()));
  for (const std::shared_ptr<PipelineCache>& cache : caches) cache->Save();
}

namespace {

void Prepare(const ffi::Module& library, int64_t number) {
  const DeviceOptions options = DeviceOptions::Read();
  PreparePipelines(library, DeviceList::Global().Get(static_cast<int>(number)),
                   options.compile_threads);
}

/*!
 * \brief Build a module from what the code generator hands over; see docs/design/vulkan-backend.md.
 */
ffi::Module CreateModule(ffi::String kernels_json, ffi::Map<ffi::String, ffi::Bytes> shaders,
                         ffi::Map<ffi::String, ffi::String> source) {
  namespace json = ffi::json;
  KernelMap kernels;
  for (const auto& item : json::Parse(kernels_json).cast<json::Object>()) {
    std::string name = std::string(item.first.cast<ffi::String>());
    json::Object fields = item.second.cast<json::Object>();
    KernelRecord record;
    record.name = name;
    for (ffi::Any type : fields.at("arg_types").cast<json::Array>()) {
      record.arg_types.push_back(ffi::StringToDLDataType(type.cast<ffi::String>()));
    }
    for (ffi::Any tag : fields.at("launch_param_tags").cast<json::Array>()) {
      record.launch_param_tags.push_back(std::string(tag.cast<ffi::String>()));
    }
    record.flags = static_cast<uint32_t>(fields.at("flags").cast<int64_t>());
    auto shader = shaders.find(item.first.cast<ffi::String>());
    if (shader == shaders.end()) {
      TVM_VISION_THROW(DeviceError) << "no shader was given for kernel " << name;
    }
    ffi::Bytes code = (*shader).second;
    if (code.size() % sizeof(uint32_t) != 0) {
      TVM_VISION_THROW(DeviceError) << "the shader of kernel " << name << " has " << code.size()
                                    << " bytes, which is no multiple of 4";
    }
    record.words.resize(code.size() / sizeof(uint32_t));
    std::memcpy(record.words.data(), code.data(), code.size());
    kernels.emplace(name, std::move(record));
  }
  return ffi::Module(ffi::make_object<VulkanModule>(std::move(kernels), std::move(source)));
}

ffi::Module LoadModule(const ffi::Bytes& bytes) {
  return ffi::Module(ffi::make_object<VulkanModule>(DeserializeKernels(bytes.data(), bytes.size()),
                                                    ffi::Map<ffi::String, ffi::String>()));
}

}  // namespace

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def("tvm_vision.vulkan.module_create", Telling(CreateModule))
      .def("tvm_vision.vulkan.module_load", Telling(LoadModule))
      .def("tvm_vision.vulkan.kernels", Telling(ListKernels))
      .def("tvm_vision.vulkan.prepare", Telling(Prepare));
}

}  // namespace vulkan
}  // namespace tvm_vision
