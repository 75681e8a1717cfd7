/* What a network says about an image of raw bytes, in C alone.
 *
 *   predict PACKAGE PIXELS HEIGHT WIDTH CHANNELS
 *
 * PIXELS: a file of uint8 rows, BGR. Prints a line for each class or box. */
#include <stdio.h>
#include <stdlib.h>
#include <tvm_vision/tvm_vision.h>

static int fail(const char* what) {
  fprintf(stderr, "predict: %s\n", what);
  return 1;
}

static uint8_t* read_pixels(const char* path, size_t bytes) {
  uint8_t* pixels = malloc(bytes);
  FILE* file = fopen(path, "rb");
  size_t found = file != NULL && pixels != NULL ? fread(pixels, 1, bytes, file) : 0;
  if (file != NULL) fclose(file);
  if (found == bytes) return pixels;
  free(pixels);
  return NULL;
}

int main(int count, char** words) {
  if (count != 6) return fail("PACKAGE PIXELS HEIGHT WIDTH CHANNELS are needed");
  tvm_vision_image image = {NULL, atoi(words[3]), atoi(words[4]), atoi(words[5]), 0};
  if (image.height < 1 || image.width < 1 || image.channels < 1) return fail("sides from 1 on");
  uint8_t* pixels =
      read_pixels(words[2], (size_t)image.height * (size_t)image.width * (size_t)image.channels);
  if (pixels == NULL) return fail("a file with the image's bytes is needed");
  image.data = pixels;

  tvm_vision_network* network = tvm_vision_load(words[1], NULL);
  tvm_vision_result result;
  int failed = network == NULL || tvm_vision_predict(network, &image, 5, &result) != 0;
  if (failed) {
    fail(tvm_vision_error());
  } else {
    for (size_t i = 0; i < result.count; ++i) {
      const tvm_vision_object* one = &result.objects[i];
      printf("%d %.7f %.4f %.4f %.4f %.4f %s\n", one->class_id, one->score, one->x1, one->y1,
             one->x2, one->y2, one->label);
    }
    size_t marked = 0;
    for (int i = 0; result.mask != NULL && i < result.mask_height * result.mask_width; ++i) {
      marked += result.mask[i] != 0;
    }
    if (result.mask != NULL)
      printf("mask %dx%d %zu\n", result.mask_height, result.mask_width, marked);
  }
  tvm_vision_free(network);
  free(pixels);
  return failed;
}
