#include "common/weights/json_file.h"

#include <algorithm>
#include <exception>
#include <span>

#include "common/base/status.h"
#include "common/weights/mapped_file.h"
#include "common/weights/tensor.h"

namespace baton::weights {
namespace {

// Deepest nesting of brackets outside strings; text need not be valid.
int Depth(const std::string& text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, uint64_t limit) {
  BATON_ASSIGN_OR_RETURN(const auto file, MappedFile::Open(path));
  if (file->size() > limit) {
    return FailedPrecondition("%s: is %d bytes long, the limit is %d", path, file->size(), limit);
  }
  std::string text(file->size(), '\0');
  BATON_RETURN_IF_ERROR(file->Read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

absl::StatusOr<nlohmann::json> ParseJsonObject(const std::string& text, const std::string& path) {
  constexpr int kDeepest = 64;
  if (const int depth = Depth(text); depth > kDeepest) {
    return InvalidArgument("%s: nested %d deep, the limit is %d", path, depth, kDeepest);
  }
  try {
    nlohmann::json value = nlohmann::json::parse(text);
    if (!value.is_object()) return InvalidArgument("%s: is not a JSON object", path);
    return value;
  } catch (const std::exception& error) {
    return InvalidArgument("%s: is not valid JSON: %s", path, Quoted(error.what()));
  }
}

}  // namespace baton::weights
