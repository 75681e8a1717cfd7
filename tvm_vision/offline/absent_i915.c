/*!
 * \file absent_i915.c
 * \brief Stands in for the kernel's side of an Intel GPU that is not there; to be preloaded.
 *
 * Intel's driver finds a device, opens it, asks what it is and gets memory and queues; whatever is
 * submitted counts as done at once and is not executed. Written after the kernel's public header
 * drm/i915_drm.h. Only what the driver asks for is answered.
 *
 * The environment says what stands in: ABSENT_GPU_FILES is a folder with the device's files, as
 * they are below /dev/dri and /sys/dev/char (intel.py writes it); ABSENT_GPU_ID, ABSENT_GPU_SLICES,
 * ABSENT_GPU_SUBSLICES and ABSENT_GPU_EUS are its PCI number and its units; ABSENT_GPU_MEMORY are
 * bytes of memory of its own, 0 where it shares the processor's.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NODE "/dev/dri/renderD128"
#define SYSTEM "/sys/dev/char/226:128"
#define MEMORY (8ull << 30)
#define PAGE 4096ull

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The memory of all buffers, one after another: a buffer's place in it is its offset for mmap. */
static int memory_file = -1;
static uint64_t memory_end = PAGE;
#define MOST_BUFFERS 65536
static uint64_t buffer_place[MOST_BUFFERS];
static uint32_t next_handle = 1;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long Number(const char* variable, long otherwise) {
  const char* text = getenv(variable);
  return text ? strtol(text, NULL, 0) : otherwise;
}

/*! \brief Where a path of the device's really is; others are as they are. */
static const char* Path(const char* path, char* buffer) {
  const char* files = getenv("ABSENT_GPU_FILES");
  if (!path || !files) return path;
  if (strncmp(path, "/dev/dri", 8) != 0 && strncmp(path, SYSTEM, strlen(SYSTEM)) != 0) return path;
  snprintf(buffer, PATH_MAX, "%s%s", files, path);
  return buffer;
}

static int Memory(void) {
  pthread_mutex_lock(&lock);
  if (memory_file < 0) memory_file = memfd_create("absent i915", MFD_CLOEXEC);
  pthread_mutex_unlock(&lock);
  return memory_file;
}

static int IsDevice(int fd) {
  struct stat ours, given;
  if (memory_file < 0 || REAL(fstat)(memory_file, &ours) || REAL(fstat)(fd, &given)) return 0;
  return ours.st_dev == given.st_dev && ours.st_ino == given.st_ino;
}

#define AS_DEVICE(status) \
  ((status)->st_mode = ((status)->st_mode & 07777) | S_IFCHR, (status)->st_rdev = makedev(226, 128))

/* Files. Both names of each function, with and without 64, are called. */

static int OpenDevice(void) { return fcntl(Memory(), F_DUPFD_CLOEXEC, 3); }

#define OPEN(name)                                                          \
  int name(const char* path, int flags, ...) {                              \
    va_list more;                                                           \
    va_start(more, flags);                                                  \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more);                                                           \
    if (strcmp(path, NODE) == 0) return OpenDevice();                       \
    char moved[PATH_MAX];                                                   \
    return REAL(name)(Path(path, moved), flags, mode);                      \
  }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                \
  FILE* name(const char* path, const char* mode) { \
    char moved[PATH_MAX];                          \
    return REAL(name)(Path(path, moved), mode);    \
  }
FOPEN(fopen)
FOPEN(fopen64)

DIR* opendir(const char* path) {
  char moved[PATH_MAX];
  return REAL(opendir)(Path(path, moved));
}

ssize_t readlink(const char* path, char* into, size_t bytes) {
  char moved[PATH_MAX];
  return REAL(readlink)(Path(path, moved), into, bytes);
}

char* realpath(const char* path, char* into) {
  char moved[PATH_MAX];
  return REAL(realpath)(Path(path, moved), into);
}

int access(const char* path, int mode) {
  char moved[PATH_MAX];
  return REAL(access)(Path(path, moved), mode);
}

#define STAT(name, type)                                           \
  int name(const char* path, struct type* status) {                \
    char moved[PATH_MAX];                                          \
    int result = REAL(name)(Path(path, moved), status);            \
    if (result == 0 && strcmp(path, NODE) == 0) AS_DEVICE(status); \
    return result;                                                 \
  }
STAT(stat, stat)
STAT(stat64, stat64)
STAT(lstat, stat)
STAT(lstat64, stat64)

#define FSTAT(name, type)                               \
  int name(int fd, struct type* status) {               \
    int result = REAL(name)(fd, status);                \
    if (result == 0 && IsDevice(fd)) AS_DEVICE(status); \
    return result;                                      \
  }
FSTAT(fstat, stat)
FSTAT(fstat64, stat64)

/* Requests. */

static int Version(struct drm_version* version) {
  static const char kName[] = "i915";
  if (version->name) strncpy(version->name, kName, version->name_len);
  if (version->date && version->date_len) version->date[0] = 0;
  if (version->desc && version->desc_len) version->desc[0] = 0;
  version->name_len = strlen(kName);
  version->date_len = version->desc_len = 0;
  version->version_major = 1;
  version->version_minor = 6;
  return 0;
}

static int Capability(struct drm_get_cap* capability) {
  switch (capability->capability) {
    case DRM_CAP_PRIME:
      capability->value = DRM_PRIME_CAP_IMPORT | DRM_PRIME_CAP_EXPORT;
      return 0;
    case DRM_CAP_SYNCOBJ:
    case DRM_CAP_SYNCOBJ_TIMELINE:
      capability->value = 1;
      return 0;
    default:
      capability->value = 0;
      return 0;
  }
}

static int Parameter(drm_i915_getparam_t* asked) {
  switch (asked->param) {
    case I915_PARAM_CHIPSET_ID:
      *asked->value = (int)Number("ABSENT_GPU_ID", 0);
      return 0;
    case I915_PARAM_REVISION:
      *asked->value = 1;
      return 0;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY:
      *asked->value = 19200000;
      return 0;
    case I915_PARAM_MMAP_GTT_VERSION:
      *asked->value = 4; /* offsets for all kinds of mapping */
      return 0;
    case I915_PARAM_MMAP_VERSION:
      *asked->value = 1;
      return 0;
    case I915_PARAM_CMD_PARSER_VERSION:
      *asked->value = 10;
      return 0;
    case I915_PARAM_HAS_SCHEDULER:
      *asked->value = I915_SCHEDULER_CAP_ENABLED | I915_SCHEDULER_CAP_PRIORITY;
      return 0;
    case I915_PARAM_HAS_ALIASING_PPGTT:
      *asked->value = 3; /* a whole address space of its own */
      return 0;
    case I915_PARAM_HUC_STATUS:
    case I915_PARAM_HAS_POOLED_EU:
    case I915_PARAM_PERF_REVISION:
      *asked->value = 0;
      return 0;
    default:
      *asked->value = 1; /* whether it can do something */
      return 0;
  }
}

static void SetBits(uint8_t* bits, long count) {
  for (long i = 0; i < count; ++i) bits[i / 8] |= 1u << (i % 8);
}

/*! \brief All slices, with all their subslices, with all their units; returns bytes. */
static int Topology(void* data, int room) {
  long slices = Number("ABSENT_GPU_SLICES", 1), subslices = Number("ABSENT_GPU_SUBSLICES", 6);
  long units = Number("ABSENT_GPU_EUS", 16);
  int slice_bytes = (int)(slices + 7) / 8, subslice_bytes = (int)(subslices + 7) / 8;
  int unit_bytes = (int)(units + 7) / 8;
  int size = (int)(sizeof(struct drm_i915_query_topology_info) + slice_bytes +
                   slices * subslice_bytes + slices * subslices * unit_bytes);
  if (room < size) return size;
  struct drm_i915_query_topology_info* info = data;
  memset(info, 0, size);
  info->max_slices = slices;
  info->max_subslices = subslices;
  info->max_eus_per_subslice = units;
  info->subslice_offset = slice_bytes;
  info->subslice_stride = subslice_bytes;
  info->eu_offset = slice_bytes + slices * subslice_bytes;
  info->eu_stride = unit_bytes;
  SetBits(info->data, slices);
  for (long s = 0; s < slices; ++s) {
    SetBits(info->data + info->subslice_offset + s * subslice_bytes, subslices);
    for (long u = 0; u < subslices; ++u) {
      SetBits(info->data + info->eu_offset + (s * subslices + u) * unit_bytes, units);
    }
  }
  return size;
}

static int Engines(void* data, int room) {
  static const uint16_t kClasses[] = {I915_ENGINE_CLASS_RENDER, I915_ENGINE_CLASS_COPY};
  int count = sizeof kClasses / sizeof *kClasses;
  struct drm_i915_query_engine_info* info = data;
  int size = (int)(sizeof *info + count * sizeof info->engines[0]);
  if (room < size) return size;
  memset(info, 0, size);
  info->num_engines = count;
  for (int i = 0; i < count; ++i) info->engines[i].engine.engine_class = kClasses[i];
  return size;
}

static int Regions(void* data, int room) {
  struct drm_i915_query_memory_regions* info = data;
  uint64_t own = (uint64_t)Number("ABSENT_GPU_MEMORY", 0);
  uint32_t count = own ? 2 : 1;
  int size = (int)(sizeof *info + count * sizeof info->regions[0]);
  if (room < size) return size;
  memset(info, 0, size);
  info->num_regions = count;
  info->regions[0].region.memory_class = I915_MEMORY_CLASS_SYSTEM;
  info->regions[0].probed_size = info->regions[0].unallocated_size = MEMORY;
  if (own) {
    struct drm_i915_memory_region_info* region = &info->regions[1];
    region->region.memory_class = I915_MEMORY_CLASS_DEVICE;
    region->probed_size = region->unallocated_size = own;
    region->probed_cpu_visible_size = region->unallocated_cpu_visible_size = own;
  }
  return size;
}

static int Query(struct drm_i915_query* query) {
  struct drm_i915_query_item* items = (void*)(uintptr_t)query->items_ptr;
  for (uint32_t i = 0; i < query->num_items; ++i) {
    void* data = (void*)(uintptr_t)items[i].data_ptr;
    int room = items[i].length;
    switch (items[i].query_id) {
      case DRM_I915_QUERY_TOPOLOGY_INFO:
      case DRM_I915_QUERY_GEOMETRY_SUBSLICES:
        items[i].length = Topology(data, room);
        break;
      case DRM_I915_QUERY_ENGINE_INFO:
        items[i].length = Engines(data, room);
        break;
      case DRM_I915_QUERY_MEMORY_REGIONS:
        items[i].length = Regions(data, room);
        break;
      default:
        items[i].length = -EINVAL;
    }
  }
  return 0;
}

static uint32_t NewBuffer(uint64_t bytes) {
  int file = Memory();
  pthread_mutex_lock(&lock);
  uint32_t handle = next_handle++;
  uint64_t size = (bytes + PAGE - 1) / PAGE * PAGE;
  if (handle < MOST_BUFFERS) buffer_place[handle] = memory_end;
  memory_end += size;
  int failed = handle >= MOST_BUFFERS || ftruncate(file, (off_t)memory_end);
  pthread_mutex_unlock(&lock);
  return failed ? 0 : handle;
}

static int Created(uint32_t handle, uint32_t* into) {
  if (handle == 0) {
    errno = ENOMEM;
    return -1;
  }
  *into = handle;
  return 0;
}

/*! \brief Numbers of contexts, address spaces and synchronisation objects: those of buffers go on.
 */
static uint32_t NewNumber(void) {
  pthread_mutex_lock(&lock);
  uint32_t number = next_handle++;
  pthread_mutex_unlock(&lock);
  return number;
}

static int ContextParameter(struct drm_i915_gem_context_param* asked) {
  if (asked->param == I915_CONTEXT_PARAM_GTT_SIZE) {
    asked->value = 1ull << 48;
  } else if (asked->param == I915_CONTEXT_PARAM_VM) {
    asked->value = NewNumber();
  } else {
    asked->value = 0;
  }
  return 0;
}

/*! \brief All points that anybody waits for were reached. */
static int ReachedPoints(struct drm_syncobj_timeline_array* asked) {
  uint64_t* points = (void*)(uintptr_t)asked->points;
  for (uint32_t i = 0; i < asked->count_handles; ++i) points[i] = UINT64_MAX >> 1;
  return 0;
}

/*! \brief A file that stands for a buffer or a fence; the driver closes what it was given. */
static int AsFile(int32_t* fd) {
  *fd = OpenDevice();
  return *fd < 0 ? -1 : 0;
}

/*! \brief Nothing is executed: at once it is done. */
static int Execute(struct drm_i915_gem_execbuffer2* batch) {
  if ((batch->flags & I915_EXEC_FENCE_OUT) == 0) return 0;
  int32_t fence;
  if (AsFile(&fence)) return -1;
  batch->rsvd2 = (batch->rsvd2 & UINT32_MAX) | (uint64_t)fence << 32;
  return 0;
}

static int Mapping(struct drm_i915_gem_mmap_offset* asked) {
  if (asked->handle == 0 || asked->handle >= MOST_BUFFERS) return errno = ENOENT, -1;
  asked->offset = buffer_place[asked->handle];
  return 0;
}

static int Request(unsigned long request, void* data) {
  switch (request) {
    case DRM_IOCTL_VERSION:
      return Version(data);
    case DRM_IOCTL_GET_CAP:
      return Capability(data);
    case DRM_IOCTL_I915_GETPARAM:
      return Parameter(data);
    case DRM_IOCTL_I915_QUERY:
      return Query(data);
    case DRM_IOCTL_I915_GEM_CREATE:
      return Created(NewBuffer(((struct drm_i915_gem_create*)data)->size),
                     &((struct drm_i915_gem_create*)data)->handle);
    case DRM_IOCTL_I915_GEM_CREATE_EXT:
      return Created(NewBuffer(((struct drm_i915_gem_create_ext*)data)->size),
                     &((struct drm_i915_gem_create_ext*)data)->handle);
    case DRM_IOCTL_I915_GEM_USERPTR:
      return Created(NewBuffer(((struct drm_i915_gem_userptr*)data)->user_size),
                     &((struct drm_i915_gem_userptr*)data)->handle);
    case DRM_IOCTL_I915_GEM_MMAP_OFFSET:
      return Mapping(data);
    case DRM_IOCTL_I915_GEM_CONTEXT_CREATE_EXT:
      ((struct drm_i915_gem_context_create_ext*)data)->ctx_id = NewNumber();
      return 0;
    case DRM_IOCTL_I915_GEM_CONTEXT_CREATE:
      ((struct drm_i915_gem_context_create*)data)->ctx_id = NewNumber();
      return 0;
    case DRM_IOCTL_I915_GEM_VM_CREATE:
      ((struct drm_i915_gem_vm_control*)data)->vm_id = NewNumber();
      return 0;
    case DRM_IOCTL_I915_GEM_CONTEXT_GETPARAM:
      return ContextParameter(data);
    case DRM_IOCTL_SYNCOBJ_CREATE:
      ((struct drm_syncobj_create*)data)->handle = NewNumber();
      return 0;
    case DRM_IOCTL_SYNCOBJ_QUERY:
      return ReachedPoints(data);
    case DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD:
      return AsFile(&((struct drm_syncobj_handle*)data)->fd);
    case DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE:
      ((struct drm_syncobj_handle*)data)->handle = NewNumber();
      return 0;
    case DRM_IOCTL_PRIME_HANDLE_TO_FD:
      return AsFile(&((struct drm_prime_handle*)data)->fd);
    case DRM_IOCTL_I915_GEM_EXECBUFFER2_WR:
      return Execute(data);
    case DRM_IOCTL_I915_GEM_GET_APERTURE:
      ((struct drm_i915_gem_get_aperture*)data)->aper_size = MEMORY;
      ((struct drm_i915_gem_get_aperture*)data)->aper_available_size = MEMORY;
      return 0;
    case DRM_IOCTL_I915_REG_READ:
      ((struct drm_i915_reg_read*)data)->val = 0;
      return 0;
    case DRM_IOCTL_I915_PERF_OPEN:
      return errno = ENODEV, -1;
    default:
      return 0; /* what has no answer beyond that it was done */
  }
}

int ioctl(int fd, unsigned long request, ...) {
  va_list more;
  va_start(more, request);
  void* data = va_arg(more, void*);
  va_end(more);
  if (IsDevice(fd)) return Request(request, data);
  return REAL(ioctl)(fd, request, data);
}
