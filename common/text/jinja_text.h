#pragma once

// UTF-8 text that remembers where each of its characters came from, through every operation a template can do with it.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace baton::jinja {

enum class Origin : uint8_t {
  kTemplate,  // a literal of the template, the tokenizer's special tokens, or made by the template (numbers, dates)
  kCaller,    // messages, tools, variables
  kMarker,    // where the message to be continued ends
};

class Text {
 public:
  struct Run {
    size_t end;  // byte offset after the run
    Origin origin;
  };

  Text() = default;
  Text(std::string bytes, Origin origin);

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // What it takes while it is kept, bookkeeping included.
  size_t memory_bytes() const { return bytes_.size() + runs_.size() * sizeof(Run) + 64; }
  const std::vector<Run>& runs() const { return runs_; }  // neighbours differ in origin

  void Append(std::string_view bytes, Origin origin);
  void Append(const Text& other);
  void AppendSlice(const Text& other, size_t begin, size_t end);  // byte offsets
  Text Slice(size_t begin, size_t end) const;                     // byte offsets
  Origin OriginAt(size_t offset) const;
  void Truncate(size_t size);

 private:
  std::string bytes_;
  std::vector<Run> runs_;
};

// Offset of the code point after the one at `offset`. A byte that starts no valid code point counts as one.
size_t NextCodePoint(std::string_view bytes, size_t offset);
size_t PreviousCodePoint(std::string_view bytes, size_t offset);
// -1 for a byte that starts no valid code point.
int32_t CodePointAt(std::string_view bytes, size_t offset);
size_t CountCodePoints(std::string_view bytes);
// Byte offset of code point `index`; the size of `bytes` if there are fewer.
size_t OffsetOfCodePoint(std::string_view bytes, size_t index);
void AppendCodePoint(std::string& bytes, int32_t code_point);
bool IsSpace(int32_t code_point);  // as Python's str.isspace

// Offset of the first or last `wanted` in `bytes` from `from` on, npos if there is none. Linear in the worst case,
// which std::string::find is not: templates may look for anything in anything.
size_t Find(std::string_view bytes, std::string_view wanted, size_t from = 0);
size_t FindLast(std::string_view bytes, std::string_view wanted);

// Python's str methods. `characters` null: white space.
Text Strip(const Text& text, const std::string* characters, bool left, bool right);
// `separator` null: runs of white space. `limit` < 0: no limit. Gives up once there are more than `max_pieces` pieces.
std::vector<Text> Split(const Text& text, const std::string* separator, int64_t limit, bool from_right,
                        size_t max_pieces);
std::vector<Text> SplitLines(const Text& text, bool keep_ends, size_t max_lines);
// `limit` < 0: all. The caller has checked the size, see ReplacedSize.
Text Replace(const Text& text, std::string_view from, const Text& to, int64_t limit);
size_t ReplacedSize(const Text& text, std::string_view from, size_t to_size, int64_t limit);

enum class Case { kUpper, kLower, kTitle, kCapitalize };
Text ChangeCase(const Text& text, Case to);

}  // namespace baton::jinja
