#include <algorithm>
#include <cmath>
#include <limits>

#include "readers.h"

namespace tvm_vision {

namespace {

/*! \brief Values of all candidates: value i of candidate k is At(i, k). Outputs of several strides
 * are one behind the other. anchors: in each cell, of outputs with the axes of their grids. */
class Table {
 public:
  Table(const Outputs& outputs, const std::vector<std::string>& names, bool transposed,
        size_t anchors = 0) {
    for (const std::string& name : names) {
      const FloatTensor& tensor = outputs.At(name);
      const std::vector<int64_t>& shape = tensor.shape;
      size_t axes = shape.size();
      if (axes < 2 || (anchors > 0 && axes != 4 && axes != 5)) {
        throw Error("InputError", "output '" + name +
                                      "' has no rows: compile the "
                                      "network with another --kind");
      }
      size_t size = tensor.values.size(), last = static_cast<size_t>(shape[axes - 1]);
      Part part{tensor.values.data(), candidates_, 0, 1, 0, 0, 0};
      if (anchors > 0 && axes == 4) {  // [1, anchors * values, rows, columns]
        part.block = static_cast<size_t>(shape[2]) * last;
        values_ = static_cast<size_t>(shape[1]) / anchors;
        part.of_block = values_ * part.block, part.of_candidate = 1, part.of_value = part.block;
      } else if (transposed) {
        values_ = static_cast<size_t>(shape[axes - 2]);
        part.block = last, part.of_candidate = 1, part.of_value = last;
      } else {
        values_ = last;
        part.block = std::max<size_t>(1, size), part.of_candidate = last, part.of_value = 1;
      }
      part.count = values_ == 0 ? 0 : size / values_;
      parts_.push_back(part);
      candidates_ += part.count;
    }
  }
  size_t values() const { return values_; }
  size_t candidates() const { return candidates_; }
  float At(size_t value, size_t candidate) const {
    const Part* part = &parts_[0];
    while (candidate - part->begin >= part->count) ++part;
    size_t own = candidate - part->begin;
    return part->data[own / part->block * part->of_block + own % part->block * part->of_candidate +
                      value * part->of_value];
  }

 private:
  /*! \brief Candidates in blocks of so many, and the steps from a block, a candidate and a value
   * to the next. */
  struct Part {
    const float* data;
    size_t begin;
    size_t count;
    size_t block;
    size_t of_block;
    size_t of_candidate;
    size_t of_value;
  };
  std::vector<Part> parts_;
  size_t values_ = 0;
  size_t candidates_ = 0;
};

/*! \brief The reading of one network's outputs. */
class Reader {
 public:
  Reader(const Outputs& outputs, const Frame& frame, const Thresholds& thresholds)
      : outputs_(outputs),
        frame_(frame),
        info_(*frame.info.detection),
        boxes_(outputs, info_.boxes, info_.transposed, info_.anchors_of_stride()),
        confidences_(frame.info, thresholds, static_cast<float>(info_.confidence)),
        iou_(thresholds.iou < 0 ? static_cast<float>(info_.iou) : thresholds.iou),
        limit_(static_cast<size_t>(thresholds.max_detections < 0 ? info_.max_detections
                                                                 : thresholds.max_detections)) {
    if (!info_.prototypes.empty()) {
      coefficients_ = outputs.At(info_.prototypes).axis(info_.prototypes_last ? 3 : 1);
    }
    extras_ = static_cast<size_t>(coefficients_ + info_.keypoints * info_.keypoint_values +
                                  (info_.oriented ? 1 : 0));
    limit_of_rows_ = boxes_.candidates();
    if (!info_.count.empty()) {
      float count = outputs.At(info_.count).values.at(0);
      limit_of_rows_ = std::min(limit_of_rows_, static_cast<size_t>(std::max(0.0f, count)));
    }
  }

  std::vector<Detection> Read() {
    bool best = info_.row == "best" || !info_.classes.empty();
    std::vector<Candidate> found = best ? OfTheBest() : OfEachClass();
    CheckScores(found,
                "compile it with another --kind, or, where these are logits, with "
                "--kind-option activation=sigmoid or softmax");
    for (Candidate& box : found) {
      if (box.class_id < 0 || box.class_id >= static_cast<int>(frame_.labels.size())) {
        throw Error("InputError", "classes of 0 to " + std::to_string(frame_.labels.size() - 1) +
                                      " are needed from the network, found " +
                                      std::to_string(box.class_id) +
                                      ": compile it with --labels that name them all");
      }
      box.score = std::min(box.score, 1.0f);
      box.group = info_.across_classes ? 0 : box.class_id;
      ReadBox(&box);
    }
    confidences_.Admit(&found);
    std::vector<Candidate> kept = Kept(std::move(found));
    std::vector<Detection> objects =
        PlaceBoxes(&kept, frame_, info_.oriented ? PlaceOriented : PlaceUpright);
    for (size_t i = 0; i < objects.size(); ++i) {
      if (info_.keypoints != 0) ReadKeypoints(kept[i], &objects[i]);
      if (!info_.prototypes.empty()) ReadMask(kept[i], &objects[i]);
    }
    return objects;
  }

 private:
  float Activated(float value) const {
    return info_.activation == "sigmoid" ? Sigmoid(value) : value;
  }

  /*! \brief Of a network that names one class for each box. */
  std::vector<Candidate> OfTheBest() const {
    std::vector<float> scores, numbers;
    for (const std::string& name : info_.scores) {
      const std::vector<float>& part = outputs_.At(name).values;
      scores.insert(scores.end(), part.begin(), part.end());
    }
    std::vector<Candidate> found;
    for (size_t i = 0; i < limit_of_rows_; ++i) {
      float raw = info_.scores.empty() ? boxes_.At(4, i) : scores.at(i);
      if (std::isnan(raw)) RefuseNan("scores");
      Candidate box;
      box.score = Activated(raw);
      if (!(box.score > confidences_.least())) continue;
      float number =
          info_.classes.empty() ? boxes_.At(5, i) : outputs_.At(info_.classes).values.at(i);
      box.class_id = static_cast<int>(std::lrint(number)) - static_cast<int>(info_.first_class);
      box.place = i;
      found.push_back(box);
    }
    return found;
  }

  /*! \brief Of a network that gives each box a score for each class. */
  std::vector<Candidate> OfEachClass() const {
    Table scores = info_.scores.empty() ? boxes_ : Table(outputs_, info_.scores, false);
    size_t begin = info_.scores.empty() && info_.box != "distances" ? 4 : 0;
    size_t end = scores.values() - (info_.scores.empty() ? extras_ : 0);
    bool objectness = info_.row == "objectness";
    std::vector<Candidate> found;
    std::vector<float> row(end - begin);
    for (size_t i = 0; i < std::min(limit_of_rows_, scores.candidates()); ++i) {
      for (size_t k = begin; k < end; ++k) row[k - begin] = scores.At(k, i);
      AddClasses(&row, objectness, i, &found);
    }
    return found;
  }

  void AddClasses(std::vector<float>* values, bool objectness, size_t place,
                  std::vector<Candidate>* found) const {
    const std::vector<float>& row = *values;
    float factor = 1;
    size_t first = 0, last = row.size();
    if (objectness) {
      factor = Activated(row[0]);
      if (std::isnan(factor)) RefuseNan("scores");
      if (!(factor > confidences_.least())) return;
      first = 1;
    } else {
      if (info_.activation == "softmax") Softmax(values);
      first = info_.background == "first" ? 1 : 0;
      last -= info_.background == "last" ? 1 : 0;
    }
    float best = -std::numeric_limits<float>::infinity();
    size_t best_class = first;
    for (size_t k = first; k < last; ++k) {
      float score = Activated(row[k]) * factor;
      if (std::isnan(score)) RefuseNan("scores");
      if (score > best) best = score, best_class = k;
      if (info_.multi_label && score > confidences_.least()) Add(score, k - first, place, found);
    }
    if (!info_.multi_label && best > confidences_.least())
      Add(best, best_class - first, place, found);
  }

  static void Add(float score, size_t class_id, size_t place, std::vector<Candidate>* found) {
    Candidate box;
    box.score = score;
    box.class_id = static_cast<int>(class_id);
    box.place = place;
    found->push_back(box);
  }

  static void Softmax(std::vector<float>* row) {
    float most = *std::max_element(row->begin(), row->end());
    float sum = 0;
    for (float& value : *row) sum += value = std::exp(value - most);
    for (float& value : *row) value /= sum;
  }

  struct Cell {
    float x, y, stride;
    const float* anchor;  // its width and height, where boxes have one
  };

  /*! \brief The cell of a candidate in the grids over the input, the finest first; those of each
   * anchor follow one another. */
  Cell CellOf(size_t place) const {
    const Preprocessing& size = frame_.info.model.preprocessing;
    const size_t anchors = info_.anchors_of_stride(), each = std::max<size_t>(1, anchors);
    const float* anchor = info_.anchors.data();
    for (int64_t stride : info_.strides) {
      size_t columns = static_cast<size_t>((size.width + stride - 1) / stride);
      size_t cells = columns * static_cast<size_t>((size.height + stride - 1) / stride);
      if (place < each * cells) {
        size_t in_grid = place % cells;
        return {static_cast<float>(in_grid % columns), static_cast<float>(in_grid / columns),
                static_cast<float>(stride), anchors == 0 ? nullptr : anchor + place / cells * 2};
      }
      place -= each * cells;
      anchor += 2 * anchors;
    }
    throw Error("PackageError",
                "the strides in mod.json do not fit the network's boxes: compile "
                "the model again");
  }

  void ReadBox(Candidate* box) const {
    if (info_.box == "distances") {
      ReadDistances(box);
      return;
    }
    const Preprocessing& size = frame_.info.model.preprocessing;
    float values[4];
    for (size_t k = 0; k < 4; ++k) {
      values[k] = boxes_.At(k, box->place);
      if (std::isnan(values[k])) RefuseNan("boxes in pixels");
    }
    if (info_.box == "grid") {
      Cell cell = CellOf(box->place);
      values[0] = (values[0] + cell.x) * cell.stride;
      values[1] = (values[1] + cell.y) * cell.stride;
      values[2] = std::exp(std::min(values[2], kLargestExponent)) * cell.stride;
      values[3] = std::exp(std::min(values[3], kLargestExponent)) * cell.stride;
    }
    if (info_.box == "anchors") {
      Cell cell = CellOf(box->place);
      for (float& value : values) value = 2 * Sigmoid(value);
      values[0] = (values[0] - 0.5f + cell.x) * cell.stride;
      values[1] = (values[1] - 0.5f + cell.y) * cell.stride;
      values[2] *= values[2] * cell.anchor[0];
      values[3] *= values[3] * cell.anchor[1];
    }
    bool turned = info_.box == "yxyx";
    if (info_.relative) {
      for (size_t k = 0; k < 4; ++k) {
        bool vertical = (k % 2 == 1) != turned;
        values[k] *= static_cast<float>(vertical ? size.height : size.width);
      }
    }
    if (turned) std::swap(values[0], values[1]), std::swap(values[2], values[3]);
    box->a = values[0], box->b = values[1], box->c = values[2], box->d = values[3];
    if (info_.oriented) {
      box->angle = boxes_.At(boxes_.values() - 1, box->place);
    } else if (info_.box == "cxcywh" || info_.box == "grid" || info_.box == "anchors") {
      ToCorners(box);
      return;
    }
    for (float* side : {&box->a, &box->b, &box->c, &box->d}) {
      *side = std::clamp(*side, -kLargestSide, kLargestSide);
    }
    if (info_.oriented) return;
    box->c = std::max(box->c, box->a), box->d = std::max(box->d, box->b);
  }

  /*! \brief The mean of each edge's distribution is its distance from the cell's middle. */
  void ReadDistances(Candidate* box) const {
    Cell cell = CellOf(box->place);
    size_t bins = boxes_.values() / 4;
    float far[4];
    for (size_t edge = 0; edge < 4; ++edge) {
      std::vector<float> weights(bins);
      for (size_t k = 0; k < bins; ++k) weights[k] = boxes_.At(edge * bins + k, box->place);
      Softmax(&weights);
      far[edge] = 0;
      for (size_t k = 0; k < bins; ++k) far[edge] += weights[k] * static_cast<float>(k);
      far[edge] *= cell.stride;
      if (std::isnan(far[edge])) RefuseNan("boxes in pixels");
    }
    float x = (cell.x + 0.5f) * cell.stride, y = (cell.y + 0.5f) * cell.stride;
    box->a = x - far[0], box->b = y - far[1], box->c = x + far[2], box->d = y + far[3];
  }

  std::vector<Candidate> Kept(std::vector<Candidate> found) const {
    if (info_.suppress) return Suppress(std::move(found), iou_, limit_, info_.oriented);
    std::stable_sort(found.begin(), found.end(),
                     [](const Candidate& x, const Candidate& y) { return x.score > y.score; });
    if (found.size() > limit_) found.resize(limit_);
    return found;
  }

  void ReadKeypoints(const Candidate& box, Detection* object) const {
    size_t per = static_cast<size_t>(info_.keypoint_values);
    size_t at = boxes_.values() - static_cast<size_t>(info_.keypoints) * per;
    for (int64_t k = 0; k < info_.keypoints; ++k, at += per) {
      Keypoint point;
      const Preprocessing& size = frame_.info.model.preprocessing;
      float across = info_.relative ? static_cast<float>(size.width) : 1.0f;
      float down = info_.relative ? static_cast<float>(size.height) : 1.0f;
      point.x = frame_.place.ToImageX(boxes_.At(at, box.place) * across);
      point.y = frame_.place.ToImageY(boxes_.At(at + 1, box.place) * down);
      if (per == 3) point.score = boxes_.At(at + 2, box.place);
      object->keypoints.push_back(point);
    }
  }

  /*! \brief Pixels within the box where the weighted sum of the prototypes is above 0. */
  void ReadMask(const Candidate& box, Detection* object) const {
    const FloatTensor& prototypes = outputs_.At(info_.prototypes);
    int rows = info_.prototypes_last ? 1 : 2;
    Plane sums{
        static_cast<int>(prototypes.axis(rows)), static_cast<int>(prototypes.axis(rows + 1)), {}};
    size_t cells = static_cast<size_t>(sums.height) * sums.width;
    size_t count = static_cast<size_t>(coefficients_);
    size_t of_plane = info_.prototypes_last ? 1 : cells,
           of_cell = info_.prototypes_last ? count : 1;
    sums.values.assign(cells, 0.0f);
    size_t first = boxes_.values() - extras_;
    for (size_t p = 0; p < count; ++p) {
      float weight = boxes_.At(first + p, box.place);
      const float* plane = prototypes.values.data() + p * of_plane;
      for (size_t i = 0; i < cells; ++i) sums.values[i] += weight * plane[i * of_cell];
    }
    InstanceMask& mask = object->mask;
    mask.top = static_cast<int>(std::ceil(object->y1));
    mask.left = static_cast<int>(std::ceil(object->x1));
    mask.height = std::max(0, static_cast<int>(std::ceil(object->y2)) - mask.top);
    mask.width = std::max(0, static_cast<int>(std::ceil(object->x2)) - mask.left);
    for (int y = 0; y < mask.height; ++y) {
      float down = PlaceDown(frame_, sums, mask.top + y);
      for (int x = 0; x < mask.width; ++x) {
        float across = PlaceAcross(frame_, sums, mask.left + x);
        mask.pixels.push_back(Sample(sums, across, down) > 0);
      }
    }
  }

  const Outputs& outputs_;
  const Frame& frame_;
  const DetectionReading& info_;
  Table boxes_;
  Confidences confidences_;
  float iou_;
  size_t limit_;
  size_t limit_of_rows_ = 0;
  int64_t coefficients_ = 0;
  size_t extras_ = 0;
};

}  // namespace

std::vector<Detection> ReadObjects(const Outputs& outputs, const Frame& frame,
                                   const Thresholds& thresholds) {
  return Reader(outputs, frame, thresholds).Read();
}

}  // namespace tvm_vision
