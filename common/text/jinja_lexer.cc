#include "common/text/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "common/text/jinja_text.h"

namespace baton::jinja {

absl::Status SyntaxError(Position at, std::string_view reason) {
  return FailedPrecondition("chat template, line %d, column %d: %s", at.line, at.column, std::string(reason));
}

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0; }
bool IsNamePart(char c) { return IsNameStart(c) || IsDigit(c); }

// Line ends become \n, and one at the very end goes.
std::string NormalizeNewlines(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      result += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      result += source[i];
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {
    for (size_t i = 0; i < source_.size(); ++i) {
      if (source_[i] == '\n') line_starts_.push_back(i + 1);
    }
  }

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) {
      const size_t tag = FindTag(at_);
      if (tag == source_.size()) {
        AddText(at_, tag);
        at_ = tag;
        break;
      }
      BATON_RETURN_IF_ERROR(LexTag(tag));
    }
    Add(Token::Kind::kEnd, at_);
    return std::move(tokens_);
  }

 private:
  Position PositionOf(size_t offset) const {
    const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset) - 1;
    return {static_cast<int>(line - line_starts_.begin()) + 1, static_cast<int>(offset - *line) + 1};
  }
  absl::Status Fail(size_t offset, std::string_view reason) const { return SyntaxError(PositionOf(offset), reason); }

  Token& Add(Token::Kind kind, size_t offset, std::string text = {}) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.text = std::move(text);
    token.at = PositionOf(offset);
    return token;
  }
  void AddText(size_t begin, size_t end) {
    if (begin < end) Add(Token::Kind::kText, begin, source_.substr(begin, end - begin));
  }

  bool StartsWith(size_t offset, std::string_view what) const {
    return source_.compare(offset, what.size(), what) == 0;
  }
  size_t SkipSpace(size_t offset) const {
    while (offset < source_.size() && IsSpace(CodePointAt(source_, offset))) offset = NextCodePoint(source_, offset);
    return offset;
  }
  // trim_blocks: the newline right after a tag belongs to it.
  size_t SkipNewline(size_t offset) const { return offset + (offset < source_.size() && source_[offset] == '\n'); }

  size_t FindTag(size_t from) const {
    for (size_t at = source_.find('{', from); at != std::string::npos; at = source_.find('{', at + 1)) {
      const char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return source_.size();
  }

  // The text before a tag: a dash strips all white space, lstrip_blocks the indentation of a block or comment.
  void AddTextBeforeTag(size_t begin, size_t end, char sign, bool is_variable) {
    if (sign == '-') {
      while (end > begin) {
        const size_t previous = PreviousCodePoint(source_, end);
        if (previous < begin || !IsSpace(CodePointAt(source_, previous))) break;
        end = previous;
      }
    } else if (sign != '+' && !is_variable) {
      size_t line = end;
      while (line > begin && source_[line - 1] != '\n') --line;
      const bool has_newline = line > begin;
      if ((has_newline || at_line_start_) && SkipSpace(line) >= end) end = line;
    }
    AddText(begin, end);
  }

  char SignAt(size_t offset) const {
    const char c = offset < source_.size() ? source_[offset] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  absl::Status LexTag(size_t tag) {
    const char kind = source_[tag + 1];
    const char sign = SignAt(tag + 2);
    const size_t inside = tag + 2 + (sign != '\0');
    AddTextBeforeTag(at_, tag, sign, kind == '{');
    if (kind == '#') return LexComment(tag, inside);
    if (kind == '%') {
      const size_t name = SkipSpace(inside);
      if (StartsWith(name, "raw")) {
        const size_t end = SkipSpace(name + 3);
        if (StartsWith(end, "-%}")) return LexRaw(tag, SkipSpace(end + 3));
        if (StartsWith(end, "%}")) return LexRaw(tag, end + 2);
      }
    }
    at_ = inside;
    Add(kind == '{' ? Token::Kind::kVariableBegin : Token::Kind::kBlockBegin, tag);
    return LexExpression(kind == '{');
  }

  void EndTag(size_t end) {
    at_line_start_ = source_[end - 1] == '\n';
    at_ = end;
  }

  absl::Status LexComment(size_t tag, size_t inside) {
    const size_t end = source_.find("#}", inside);
    if (end == std::string::npos) return Fail(tag, "missing end of comment tag");
    const char sign = end > inside ? source_[end - 1] : '\0';
    EndTag(sign == '-' ? SkipSpace(end + 2) : sign == '+' ? end + 2 : SkipNewline(end + 2));
    return absl::OkStatus();
  }

  absl::Status LexRaw(size_t tag, size_t begin) {
    at_line_start_ = source_[begin - 1] == '\n';
    for (size_t end = source_.find("{%", begin); end != std::string::npos; end = source_.find("{%", end + 1)) {
      const char sign = SignAt(end + 2);
      const size_t name = SkipSpace(end + 2 + (sign != '\0'));
      if (!StartsWith(name, "endraw")) continue;
      const size_t close = SkipSpace(name + 6);
      const char close_sign = SignAt(close);
      const size_t braces = close + (close_sign != '\0');
      if (!StartsWith(braces, "%}")) continue;
      AddTextBeforeTag(begin, end, sign, false);
      EndTag(close_sign == '-' ? SkipSpace(braces + 2) : close_sign == '+' ? braces + 2 : SkipNewline(braces + 2));
      return absl::OkStatus();
    }
    return Fail(tag, "missing end of raw directive");
  }

  // The end of the tag at `offset`, 0 if there is none.
  size_t TagEnd(size_t offset, bool is_variable) const {
    if (is_variable) {
      if (StartsWith(offset, "-}}")) return SkipSpace(offset + 3);
      return StartsWith(offset, "}}") ? offset + 2 : 0;
    }
    if (StartsWith(offset, "+%}")) return offset + 3;
    if (StartsWith(offset, "-%}")) return SkipSpace(offset + 3);
    return StartsWith(offset, "%}") ? SkipNewline(offset + 2) : 0;
  }

  absl::Status LexExpression(bool is_variable) {
    std::string open;  // closing brackets still to come
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (const size_t end = TagEnd(at_, is_variable); end != 0) {
          Add(is_variable ? Token::Kind::kVariableEnd : Token::Kind::kBlockEnd, at_);
          EndTag(end);
          return absl::OkStatus();
        }
      }
      const char c = source_[at_];
      if (IsSpace(CodePointAt(source_, at_))) {
        at_ = SkipSpace(at_);
      } else if (IsDigit(c)) {
        BATON_RETURN_IF_ERROR(LexNumber());
      } else if (IsNameStart(c)) {
        const size_t begin = at_;
        while (at_ < source_.size() && IsNamePart(source_[at_])) ++at_;
        Add(Token::Kind::kName, begin, source_.substr(begin, at_ - begin));
      } else if (c == '\'' || c == '"') {
        BATON_RETURN_IF_ERROR(LexString(c));
      } else {
        BATON_RETURN_IF_ERROR(LexOperator(open));
      }
    }
    return Fail(at_, "unexpected end of template inside a tag");
  }

  absl::Status LexOperator(std::string& open) {
    static constexpr std::array<std::string_view, 27> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                                    "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                                    ">",  "<",  "=",  ".",  ":",  "|",  ",", ";", ""};
    const auto found = std::find_if(kOperators.begin(), kOperators.end(), [&](auto op) { return StartsWith(at_, op); });
    if (found->empty())
      return Fail(at_, "unexpected character '" + source_.substr(at_, NextCodePoint(source_, at_) - at_) + "'");
    const char c = (*found)[0];
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) return Fail(at_, std::string("unexpected '") + c + "'");
      if (open.back() != c) return Fail(at_, std::string("unexpected '") + c + "', expected '" + open.back() + "'");
      open.pop_back();
    }
    Add(Token::Kind::kOperator, at_, std::string(*found));
    at_ += found->size();
    return absl::OkStatus();
  }

  size_t SkipDigits(size_t offset) const {
    while (offset < source_.size() &&
           (IsDigit(source_[offset]) ||
            (source_[offset] == '_' && offset + 1 < source_.size() && IsDigit(source_[offset + 1])))) {
      ++offset;
    }
    return offset;
  }

  absl::Status LexNumber() {
    const size_t begin = at_;
    int base = 10;
    size_t end = SkipDigits(begin);
    bool is_float = false;
    if (source_[begin] == '0' && begin + 1 < source_.size()) {
      const char prefix = static_cast<char>(source_[begin + 1] | 0x20);
      base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
      if (base != 10) {
        end = begin + 2;
        while (end < source_.size() &&
               (std::isxdigit(static_cast<unsigned char>(source_[end])) != 0 || source_[end] == '_'))
          ++end;
      }
    }
    if (base == 10 && (begin == 0 || source_[begin - 1] != '.')) {
      if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
        is_float = true;
        end = SkipDigits(end + 1);
      }
      if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
        const size_t digits = end + 1 + (SignAt(end + 1) != '\0');
        if (digits < source_.size() && IsDigit(source_[digits])) {
          is_float = true;
          end = SkipDigits(digits);
        }
      }
    }
    std::string text = source_.substr(begin, end - begin);
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Token& token = Add(is_float ? Token::Kind::kFloat : Token::Kind::kInteger, begin, text);
    const char* first = text.data() + (base == 10 ? 0 : 2);
    const char* last = text.data() + text.size();
    const auto parsed =
        is_float ? std::from_chars(first, last, token.number) : std::from_chars(first, last, token.integer, base);
    if (parsed.ptr != last || parsed.ec != std::errc())
      return Fail(begin, "number '" + text + "' cannot be represented");
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    const size_t begin = at_++;
    std::string value;
    while (at_ < source_.size() && source_[at_] != quote) {
      if (source_[at_] != '\\') {
        value += source_[at_++];
        continue;
      }
      if (++at_ >= source_.size()) break;
      BATON_RETURN_IF_ERROR(LexEscape(value));
    }
    if (at_ >= source_.size()) return Fail(begin, "string without an end");
    ++at_;
    Add(Token::Kind::kString, begin, std::move(value));
    return absl::OkStatus();
  }

  // As in a Python literal; at_ is behind the backslash.
  absl::Status LexEscape(std::string& value) {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = source_[at_];
    if (const size_t simple = kFrom.find(c); simple != std::string_view::npos) {
      value += kTo[simple];
      ++at_;
      return absl::OkStatus();
    }
    if (c == '\n') {
      ++at_;
      return absl::OkStatus();
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits > 0 || (c >= '0' && c <= '7')) {
      const char* first = source_.data() + at_ + (digits > 0);
      const char* last = std::min(first + (digits > 0 ? digits : 3), source_.data() + source_.size());
      uint32_t code_point = 0;
      const auto parsed = std::from_chars(first, last, code_point, digits > 0 ? 16 : 8);
      if (digits > 0 && (parsed.ptr != first + digits || code_point > 0x10FFFF))
        return Fail(at_ - 1, "bad escape in a string");
      AppendCodePoint(value, static_cast<int32_t>(code_point));
      at_ = static_cast<size_t>(parsed.ptr - source_.data());
      return absl::OkStatus();
    }
    if (c == 'N') return Fail(at_ - 1, "\\N escapes are not supported");
    value += '\\';  // unknown escapes stay as they are
    return absl::OkStatus();
  }

  const std::string source_;
  std::vector<size_t> line_starts_ = {0};
  std::vector<Token> tokens_;
  size_t at_ = 0;
  bool at_line_start_ = true;  // whether what was lexed last ended a line
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(NormalizeNewlines(source)).Run(); }

}  // namespace baton::jinja
