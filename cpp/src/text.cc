#include "text.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <tvm_vision/tvm_vision.hpp>
#include <utility>
#include <vector>

namespace tvm_vision {

namespace {

constexpr size_t kLongestMessage = 2000;  // characters

// Beyond ASCII: what has no form of its own or turns the text around (Cc, Cf, Zs, Zl, Zp, Co).
constexpr std::pair<uint32_t, uint32_t> kUnseen[] = {
    {0x00, 0x1F},     {0x7F, 0xA0},     {0xAD, 0xAD},     {0x600, 0x605},
    {0x61C, 0x61C},   {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200F},
    {0x2028, 0x202F}, {0x205F, 0x206F}, {0x3000, 0x3000}, {0xE000, 0xF8FF},
    {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0x10FFFF}};

bool IsSeen(uint32_t character) {
  for (auto [first, last] : kUnseen) {
    if (character >= first && character <= last) return false;
  }
  return true;
}

std::string WrittenOut(uint32_t character) {
  if (character == '\n') return "\\n";
  if (character == '\r') return "\\r";
  if (character == '\t') return "\\t";
  char text[16];
  const char* form = character < 0x100 ? "\\x%02x" : character < 0x10000 ? "\\u%04x" : "\\U%08x";
  std::snprintf(text, sizeof(text), form, character);
  return text;
}

}  // namespace

bool TakeCharacter(std::string_view* text, uint32_t* character) {
  if (text->empty()) return false;
  auto byte = [&](size_t i) { return static_cast<uint8_t>((*text)[i]); };
  uint8_t first = byte(0);
  size_t count = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (count == 0 || first > 0xF4 || text->size() < count) return false;
  uint32_t value = count == 1 ? first : first & (0x7F >> count);
  for (size_t i = 1; i < count; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return false;
    value = value << 6 | (byte(i) & 0x3F);
  }
  bool longer = (count == 3 && value < 0x800) || (count == 4 && value < 0x10000);
  if (longer || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return false;
  text->remove_prefix(count);
  *character = value;
  return true;
}

bool IsUtf8(std::string_view text) {
  uint32_t character = 0;
  while (TakeCharacter(&text, &character)) {
  }
  return text.empty();
}

std::string SystemReason() { return std::strerror(errno); }

std::string ToUtf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    std::string_view before = bytes;
    uint32_t character = 0;
    if (TakeCharacter(&bytes, &character)) {
      text += before.substr(0, before.size() - bytes.size());
    } else {
      text += WrittenOut(static_cast<uint8_t>(bytes.front()));
      bytes.remove_prefix(1);
    }
  }
  return text;
}

std::string Shortened(std::string_view text, size_t most) {
  std::string_view left = text;
  uint32_t character = 0;
  for (size_t i = 0; i < most && TakeCharacter(&left, &character); ++i) {
  }
  return std::string(text.substr(0, text.size() - left.size()));
}

std::string OneLine(std::string_view text) {
  std::string seen = ToUtf8(text), line;
  std::vector<size_t> begins;
  std::string_view left = seen;
  auto add = [&](std::string_view piece) {
    for (char one : piece) {
      if ((static_cast<uint8_t>(one) & 0xC0) != 0x80) begins.push_back(line.size());
      line += one;
    }
  };
  while (!left.empty()) {
    std::string_view before = left;
    uint32_t character = 0;
    TakeCharacter(&left, &character);
    if (IsSeen(character)) {
      add(before.substr(0, before.size() - left.size()));
    } else {
      add(WrittenOut(character));
    }
  }
  if (begins.size() <= kLongestMessage) return line;
  constexpr size_t kHalf = kLongestMessage / 2;
  return line.substr(0, begins[kHalf]) + " ... " + line.substr(begins[begins.size() - kHalf]);
}

Error::Error(std::string kind, const std::string& message)
    : std::runtime_error(OneLine(message)), kind_(std::move(kind)) {}

}  // namespace tvm_vision
