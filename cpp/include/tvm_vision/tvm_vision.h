/*!
 * \file tvm_vision.h
 * \brief tvm_vision.hpp for other languages: a few functions of C.
 *
 * Ten functions. Those that return an int return 0 when they did what they are for; otherwise
 * tvm_vision_error() says in one line what was needed, what was found and what to do. What pointers
 * of results show stays until the network's next call of the same function, or it is freed. A
 * network serves one thread at a time.
 */
#ifndef TVM_VISION_TVM_VISION_H_
#define TVM_VISION_TVM_VISION_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TVM_VISION_C_PUBLIC __attribute__((visibility("default")))
#else
#define TVM_VISION_C_PUBLIC
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tvm_vision_network tvm_vision_network;

/*! \brief Where a network runs. */
enum { TVM_VISION_AUTO = 0, TVM_VISION_VULKAN = 1, TVM_VISION_CPU = 2 };

/*! \brief How a package is loaded; start from TVM_VISION_OPTIONS. */
typedef struct {
  int device;
  const char* target;   /* of a package for several devices the variant; NULL: for this machine */
  const char* verify;   /* file of public keys, one of which has to have signed it; NULL: whoever */
  double frame_timeout; /* seconds that a call may wait for the device; 0: any time */
  int rebuilds_per_minute; /* of a device that is lost, 0 to 60 */
  const char* fallback;    /* after these: NULL, "cpu", or the path of a package for a processor */
  double opening_timeout;  /* seconds that the driver may take to open the device; 0: any time */
} tvm_vision_options;

#define TVM_VISION_OPTIONS {TVM_VISION_AUTO, NULL, NULL, 0, 6, NULL, 120}

/*! \brief A loaded network; kind: "network", "classifier", "yoeo", "yolo", "detr", "ssd",
 * "segmenter" or "depth". */
typedef struct {
  const char* name;
  const char* kind;
  const char* device; /* one line that names it */
  const char* losses; /* one line that says what became of a device that was lost; "": none was */
  size_t inputs;
  size_t outputs;
} tvm_vision_info;

/*! \brief An input or output: its name, type, sides; layout "NCHW", "NHWC", "NHW" or "". Integers
 * that stand for real numbers, (integer - zero_point) * scale, have a scale above 0. */
typedef struct {
  const char* name;
  const char* dtype;
  const char* layout;
  const int64_t* shape;
  size_t axes;
  float scale;
  int64_t zero_point;
} tvm_vision_tensor;

/*! \brief uint8 pixels, BGR; stride: bytes from a row to the next, 0 for rows without gaps. */
typedef struct {
  const uint8_t* data;
  int height;
  int width;
  int channels;
  size_t stride;
} tvm_vision_image;

/*! \brief A box in pixels of the image, or, of a classifier, a class whose box is all zero. What a
 * network does not say is NULL. */
typedef struct {
  float x1, y1, x2, y2;
  float score;
  int class_id;
  const char* label;
  const float* keypoints; /* x, y and score of each */
  size_t keypoint_count;
  const float* oriented; /* centre x, y, width, height, angle in radians */
  const uint8_t* mask;   /* 1 where the object is, in a part of the image */
  int mask_top, mask_left, mask_height, mask_width;
} tvm_vision_object;

/*! \brief What a network says about an image. mask: a class for each pixel, or NULL; depth: how far
 * away each pixel is, or NULL, in depth_unit ("metres", or ""); depth_inverse: larger is nearer. */
typedef struct {
  const tvm_vision_object* objects;
  size_t count;
  const uint8_t* mask;
  int mask_height, mask_width;
  const float* depth;
  int depth_height, depth_width;
  const char* depth_unit;
  int depth_inverse;
} tvm_vision_result;

/*! \brief Of this thread's last call that failed. */
TVM_VISION_C_PUBLIC const char* tvm_vision_error(void);
/*! \brief Load a package, a tar or folder; options may be NULL. NULL where that fails. */
TVM_VISION_C_PUBLIC tvm_vision_network* tvm_vision_load(const char* path,
                                                        const tvm_vision_options* options);
/*! \brief NULL does nothing. */
TVM_VISION_C_PUBLIC void tvm_vision_free(tvm_vision_network* network);
TVM_VISION_C_PUBLIC int tvm_vision_about(tvm_vision_network* network, tvm_vision_info* info);
/*! \brief An input, or with outputs != 0 an output, by its number. */
TVM_VISION_C_PUBLIC int tvm_vision_describe(tvm_vision_network* network, int outputs, size_t index,
                                            tvm_vision_tensor* tensor);
/*! \brief Copy an input of the next frame; it stays set. bytes: of the whole tensor. */
TVM_VISION_C_PUBLIC int tvm_vision_set_input(tvm_vision_network* network, size_t index,
                                             const void* data, size_t bytes);
/*! \brief One frame, from the inputs that are set to finished outputs. */
TVM_VISION_C_PUBLIC int tvm_vision_run(tvm_vision_network* network);
/*! \brief An output of the last frame, as the network gives it. */
TVM_VISION_C_PUBLIC int tvm_vision_get_output(tvm_vision_network* network, size_t index,
                                              const void** data, size_t* bytes);
/*! \brief The network's input for an image, as it would be set for it. */
TVM_VISION_C_PUBLIC int tvm_vision_prepare(tvm_vision_network* network,
                                           const tvm_vision_image* image, const void** data,
                                           size_t* bytes);
/*! \brief Prepare, run and read one image; top: classes of a classifier's result. */
TVM_VISION_C_PUBLIC int tvm_vision_predict(tvm_vision_network* network,
                                           const tvm_vision_image* image, size_t top,
                                           tvm_vision_result* result);

#ifdef __cplusplus
}
#endif

#endif  // TVM_VISION_TVM_VISION_H_
