#include "common/text/jinja_text.h"

#include <string.h>  // memmem

#include <algorithm>
#include <utility>

#include "utf8proc.h"

namespace baton::jinja {

Text::Text(std::string bytes, Origin origin) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), origin});
}

void Text::Append(std::string_view bytes, Origin origin) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().origin == origin) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), origin});
  }
}

void Text::Append(const Text& other) { AppendSlice(other, 0, other.size()); }

void Text::AppendSlice(const Text& other, size_t begin, size_t end) {
  auto run = std::upper_bound(other.runs_.begin(), other.runs_.end(), begin,
                              [](size_t offset, const Run& candidate) { return offset < candidate.end; });
  while (begin < end && run != other.runs_.end()) {
    const size_t stop = std::min(end, run->end);
    Append(std::string_view(other.bytes_).substr(begin, stop - begin), run->origin);
    begin = stop;
    ++run;
  }
}

Text Text::Slice(size_t begin, size_t end) const {
  Text result;
  result.AppendSlice(*this, begin, end);
  return result;
}

Origin Text::OriginAt(size_t offset) const {
  for (const Run& run : runs_) {
    if (offset < run.end) return run.origin;
  }
  return Origin::kTemplate;
}

void Text::Truncate(size_t size) {
  if (size >= bytes_.size()) return;
  bytes_.resize(size);
  while (!runs_.empty() && (runs_.size() > 1 ? runs_[runs_.size() - 2].end >= size : size == 0)) runs_.pop_back();
  if (!runs_.empty()) runs_.back().end = size;
}

namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Bytes of the code point at `offset`, 0 if it is not valid.
size_t SequenceLength(std::string_view bytes, size_t offset) {
  const auto lead = static_cast<unsigned char>(bytes[offset]);
  const size_t length = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || offset + length > bytes.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(bytes[offset + i])) return 0;
  }
  return length;
}

}  // namespace

size_t NextCodePoint(std::string_view bytes, size_t offset) {
  return offset + std::max<size_t>(1, SequenceLength(bytes, offset));
}

size_t PreviousCodePoint(std::string_view bytes, size_t offset) {
  for (size_t back = 1; back <= 4 && back <= offset; ++back) {
    if (SequenceLength(bytes, offset - back) == back) return offset - back;
  }
  return offset - 1;
}

int32_t CodePointAt(std::string_view bytes, size_t offset) {
  const size_t length = SequenceLength(bytes, offset);
  if (length == 0) return -1;
  const auto lead = static_cast<unsigned char>(bytes[offset]);
  if (length == 1) return lead;
  int32_t code_point = lead & (0xFF >> (length + 1));
  for (size_t i = 1; i < length; ++i) code_point = code_point << 6 | (bytes[offset + i] & 0x3F);
  return code_point;
}

size_t CountCodePoints(std::string_view bytes) {
  size_t count = 0;
  for (size_t at = 0; at < bytes.size(); at = NextCodePoint(bytes, at)) ++count;
  return count;
}

size_t OffsetOfCodePoint(std::string_view bytes, size_t index) {
  size_t at = 0;
  while (index > 0 && at < bytes.size()) {
    at = NextCodePoint(bytes, at);
    --index;
  }
  return at;
}

void AppendCodePoint(std::string& bytes, int32_t code_point) {
  utf8proc_uint8_t buffer[4];
  const bool valid = code_point >= 0 && code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF);
  const auto size = utf8proc_encode_char(valid ? code_point : 0xFFFD, buffer);
  bytes.append(reinterpret_cast<const char*>(buffer), static_cast<size_t>(size));
}

bool IsSpace(int32_t code_point) {
  if (code_point < 0x80)
    return code_point == ' ' || (code_point >= 9 && code_point <= 13) || (code_point >= 0x1C && code_point <= 0x1F);
  return code_point == 0x85 || code_point == 0xA0 || code_point == 0x1680 ||
         (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x2028 || code_point == 0x2029 ||
         code_point == 0x202F || code_point == 0x205F || code_point == 0x3000;
}

size_t Find(std::string_view bytes, std::string_view wanted, size_t from) {
  if (from > bytes.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(bytes.data() + from, bytes.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
}

size_t FindLast(std::string_view bytes, std::string_view wanted) {
  const std::string backwards(bytes.rbegin(), bytes.rend());
  const size_t found = Find(backwards, std::string(wanted.rbegin(), wanted.rend()));
  return found == std::string_view::npos ? found : bytes.size() - found - wanted.size();
}

Text Strip(const Text& text, const std::string* characters, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  std::vector<int32_t> wanted;
  for (size_t at = 0; characters != nullptr && at < characters->size(); at = NextCodePoint(*characters, at)) {
    wanted.push_back(CodePointAt(*characters, at));
  }
  std::sort(wanted.begin(), wanted.end());
  auto strips = [&](size_t at) {
    const int32_t code_point = CodePointAt(bytes, at);
    return characters == nullptr ? IsSpace(code_point) : std::binary_search(wanted.begin(), wanted.end(), code_point);
  };
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const size_t next = NextCodePoint(bytes, begin);
    if (!strips(begin)) break;
    begin = next;
  }
  while (right && begin < end) {
    const size_t previous = PreviousCodePoint(bytes, end);
    if (!strips(previous)) break;
    end = previous;
  }
  return text.Slice(begin, end);
}

namespace {

struct Piece {
  size_t begin, end;
};

std::vector<Piece> SplitAtSpace(std::string_view bytes, int64_t limit, size_t max_pieces) {
  std::vector<Piece> pieces;
  size_t at = 0;
  auto skip = [&](bool space) {
    while (at < bytes.size() && IsSpace(CodePointAt(bytes, at)) == space) at = NextCodePoint(bytes, at);
  };
  for (skip(true); at < bytes.size() && pieces.size() <= max_pieces; skip(true)) {
    const size_t begin = at;
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.push_back({begin, bytes.size()});  // trailing white space stays, as in Python
      return pieces;
    }
    skip(false);
    pieces.push_back({begin, at});
  }
  return pieces;
}

std::vector<Piece> SplitAtSpaceFromRight(std::string_view bytes, int64_t limit, size_t max_pieces) {
  std::vector<Piece> pieces;
  size_t at = bytes.size();
  auto skip = [&](bool space) {
    while (at > 0) {
      const size_t previous = PreviousCodePoint(bytes, at);
      if (IsSpace(CodePointAt(bytes, previous)) != space) return;
      at = previous;
    }
  };
  for (skip(true); at > 0 && pieces.size() <= max_pieces; skip(true)) {
    const size_t end = at;
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.push_back({0, end});
      break;
    }
    skip(false);
    pieces.push_back({at, end});
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<Piece> SplitAt(std::string_view bytes, std::string_view separator, int64_t limit, size_t max_pieces) {
  std::vector<Piece> pieces;
  size_t begin = 0;
  while ((limit < 0 || static_cast<int64_t>(pieces.size()) < limit) && pieces.size() <= max_pieces) {
    const size_t found = Find(bytes, separator, begin);
    if (found == std::string_view::npos) break;
    pieces.push_back({begin, found});
    begin = found + separator.size();
  }
  pieces.push_back({begin, bytes.size()});
  return pieces;
}

std::vector<Piece> SplitAtFromRight(std::string_view bytes, std::string_view separator, int64_t limit,
                                    size_t max_pieces) {
  const std::string backwards(bytes.rbegin(), bytes.rend());
  std::vector<Piece> pieces = SplitAt(backwards, std::string(separator.rbegin(), separator.rend()), limit, max_pieces);
  for (Piece& piece : pieces) piece = {bytes.size() - piece.end, bytes.size() - piece.begin};
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace

std::vector<Text> Split(const Text& text, const std::string* separator, int64_t limit, bool from_right,
                        size_t max_pieces) {
  const std::string_view bytes = text.bytes();
  std::vector<Piece> pieces;
  if (separator == nullptr) {
    pieces = from_right ? SplitAtSpaceFromRight(bytes, limit, max_pieces) : SplitAtSpace(bytes, limit, max_pieces);
  } else {
    pieces = from_right ? SplitAtFromRight(bytes, *separator, limit, max_pieces)
                        : SplitAt(bytes, *separator, limit, max_pieces);
  }
  std::vector<Text> result;
  result.reserve(pieces.size());
  for (const Piece& piece : pieces) result.push_back(text.Slice(piece.begin, piece.end));
  return result;
}

std::vector<Text> SplitLines(const Text& text, bool keep_ends, size_t max_lines) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> lines;
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size() && lines.size() <= max_lines;) {
    const int32_t code_point = CodePointAt(bytes, at);
    size_t next = NextCodePoint(bytes, at);
    const bool ends = (code_point >= 10 && code_point <= 13) || (code_point >= 0x1C && code_point <= 0x1E) ||
                      code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029;
    if (ends) {
      if (code_point == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(text.Slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) lines.push_back(text.Slice(begin, bytes.size()));
  return lines;
}

namespace {

// Calls `found` with every offset at which `from` is replaced; an empty `from` matches before every code point and at
// the end.
template <typename Found>
void ForEachMatch(std::string_view bytes, std::string_view from, int64_t limit, Found found) {
  if (from.empty()) {
    for (size_t at = 0; limit != 0; at = NextCodePoint(bytes, at), --limit) {
      found(at);
      if (at >= bytes.size()) return;
    }
    return;
  }
  for (size_t at = Find(bytes, from); at != std::string_view::npos && limit != 0;
       at = Find(bytes, from, at + from.size())) {
    found(at);
    --limit;
  }
}

}  // namespace

size_t ReplacedSize(const Text& text, std::string_view from, size_t to_size, int64_t limit) {
  size_t count = 0;
  ForEachMatch(text.bytes(), from, limit, [&](size_t) { ++count; });
  return text.size() - count * from.size() + count * to_size;
}

Text Replace(const Text& text, std::string_view from, const Text& to, int64_t limit) {
  Text result;
  size_t begin = 0;
  ForEachMatch(text.bytes(), from, limit, [&](size_t at) {
    result.AppendSlice(text, begin, at);
    result.Append(to);
    begin = at + from.size();
  });
  result.AppendSlice(text, begin, text.size());
  return result;
}

namespace {

bool IsCased(int32_t code_point) {
  const auto category = utf8proc_category(code_point);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

}  // namespace

Text ChangeCase(const Text& text, Case to) {
  Text result;
  const std::string_view bytes = text.bytes();
  bool in_word = false;
  std::string changed;
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    changed.clear();
    for (size_t at = begin; at < run.end;) {
      const int32_t code_point = CodePointAt(bytes, at);
      const size_t next = NextCodePoint(bytes, at);
      if (code_point < 0) {
        changed += bytes[at];
      } else if (to == Case::kUpper) {
        AppendCodePoint(changed, utf8proc_toupper(code_point));
      } else if (to == Case::kLower || in_word) {
        AppendCodePoint(changed, utf8proc_tolower(code_point));
      } else {
        AppendCodePoint(changed, utf8proc_totitle(code_point));
      }
      in_word = to == Case::kCapitalize || (code_point >= 0 && IsCased(code_point));
      at = next;
    }
    result.Append(changed, run.origin);
    begin = run.end;
  }
  return result;
}

}  // namespace baton::jinja
