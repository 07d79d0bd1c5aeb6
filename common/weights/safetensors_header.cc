#include "common/weights/safetensors_header.h"

#include <array>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "common/base/status.h"
#include "common/weights/tensor.h"
#include "nlohmann/json.hpp"

namespace baton::weights {
namespace {

constexpr size_t kMostTensors = 1 << 17;
constexpr size_t kMostDimensions = 8;

// Receives the parser's events. {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__":
// {..}}
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& error() const { return error_; }
  std::vector<SafetensorsEntry> Take() { return std::move(entries_); }

  bool start_object(size_t) override {
    if (depth_ == 0) {
      depth_ = 1;
      return true;
    }
    if (depth_ != 1) return Fail("has an object where a value belongs");
    depth_ = 2;
    seen_ = {};
    return true;
  }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second) return Fail("appears twice", name);
      in_metadata_ = name == "__metadata__";
      current_ = SafetensorsEntry{.name = name};
      return true;
    }
    if (in_metadata_) return true;
    static constexpr std::array<std::string_view, 3> kFields = {"dtype", "shape", "data_offsets"};
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (name != kFields[i]) continue;
      if (seen_[i]) return Fail("has two values for " + name);
      seen_[i] = true;
      field_ = i;
      return true;
    }
    return Fail("has an unknown field " + Quoted(name));
  }

  bool end_object() override {
    if (--depth_ == 0 || in_metadata_) return true;
    if (!seen_[0] || !seen_[1] || !seen_[2]) return Fail("lacks dtype, shape or data_offsets");
    if (offsets_ != 2) return Fail(absl::StrFormat("has %d data_offsets, not 2", offsets_));
    offsets_ = 0;
    if (entries_.size() == kMostTensors) return Fail(absl::StrFormat("is one of more than %d tensors", kMostTensors));
    entries_.push_back(std::move(current_));
    return true;
  }

  bool start_array(size_t) override {
    if (depth_ != 2 || in_metadata_ || field_ == 0) return Fail("has a list where another value belongs");
    depth_ = 3;
    return true;
  }

  bool end_array() override {
    depth_ = 2;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 3) return Fail("has a number where another value belongs");
    if (field_ == 1) {
      if (current_.shape.size() == kMostDimensions) return Fail("has more than 8 dimensions");
      current_.shape.push_back(value);
      return true;
    }
    if (offsets_ == 0) current_.begin = value;
    if (offsets_ == 1) current_.end = value;
    return ++offsets_ <= 2 || Fail("has more than 2 data_offsets");
  }

  bool string(string_t& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (depth_ != 2 || field_ != 0) return Fail("has a string where another value belongs");
    if (value.size() > 16) return Fail("has the unknown dtype " + Quoted(value));
    current_.dtype = value;
    return true;
  }

  bool number_integer(number_integer_t value) override {
    return Fail(absl::StrFormat("has the negative number %d", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return Fail("has the number " + Quoted(text) + ", not an unsigned integer");
  }
  bool null() override { return Fail("has a null"); }
  bool boolean(bool) override { return Fail("has a boolean"); }
  bool binary(binary_t&) override { return Fail("has binary data"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override {
    error_ = absl::StrFormat("header is not valid JSON at byte %d: %s", position, Quoted(error.what()));
    return false;
  }

 private:
  bool Fail(const std::string& what) { return Fail(what, current_.name); }
  bool Fail(const std::string& what, const std::string& tensor) {
    error_ = tensor.empty() ? "header " + what : "tensor " + Quoted(tensor) + " " + what;
    return false;
  }

  std::vector<SafetensorsEntry> entries_;
  absl::flat_hash_set<std::string> names_;
  SafetensorsEntry current_;
  std::array<bool, 3> seen_ = {};
  size_t field_ = 0;  // of kFields, the last key
  int depth_ = 0;     // 1: names; 2: an entry or the metadata; 3: a list of numbers
  int offsets_ = 0;
  bool in_metadata_ = false;
  std::string error_;
};

}  // namespace

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(std::string_view json) {
  HeaderHandler handler;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &handler)) return InvalidArgument("%s", handler.error());
  return handler.Take();
}

}  // namespace baton::weights
