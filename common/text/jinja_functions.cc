#include "common/text/jinja_functions.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace baton::jinja {

namespace {

constexpr std::string_view kFunctions[] = {"raise_exception", "strftime_now", "range", "namespace", "dict"};
constexpr size_t kMaximumMessage = 1000;
constexpr int64_t kMaximumRange = 100'000;  // as jinja2's sandbox has it

constexpr const char* kDays[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr const char* kMonths[] = {"January", "February", "March",     "April",   "May",      "June",
                                   "July",    "August",   "September", "October", "November", "December"};

absl::StatusOr<Value> RaiseException(Runtime& runtime, const Arguments& arguments, bool& raised) {
  Text message;
  if (const Value* given = arguments.Find(0, "message")) {
    BATON_ASSIGN_OR_RETURN(message, runtime.ToText(*given));
  }
  size_t end = std::min(message.size(), kMaximumMessage);
  while (end > 0 && end < message.size() && (message.bytes()[end] & 0xC0) == 0x80) --end;
  raised = true;
  return MakeStatus(absl::StatusCode::kInvalidArgument, message.bytes().substr(0, end));
}

absl::StatusOr<Value> RangeFunction(Runtime& runtime, const Arguments& arguments) {
  int64_t bounds[3] = {0, 0, 1};
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3) return InvalidArgument("range takes 1 to 3 numbers, not %d", given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].IsInteger()) return Runtime::TypeError("an argument of range", given[i]);
    bounds[given.size() == 1 ? 1 : i] = given[i].integer();
  }
  const auto [begin, end, step] = bounds;
  if (step == 0) return InvalidArgument("the step of range cannot be 0");
  const double count = (static_cast<double>(end) - static_cast<double>(begin)) / static_cast<double>(step);
  if (count > static_cast<double>(kMaximumRange)) {
    return ResourceExhausted("chat template makes a range of %.0f numbers, the limit is %d", count, kMaximumRange);
  }
  std::vector<Value> items;
  if (count > 0) BATON_RETURN_IF_ERROR(runtime.budget().ReserveItems(static_cast<size_t>(count) + 1));
  for (int64_t value = begin; step > 0 ? value < end : value > end;) {
    items.emplace_back(value);
    if (__builtin_add_overflow(value, step, &value)) break;
  }
  return runtime.NewList(std::move(items));
}

// From a mapping or pairs, then named arguments.
absl::Status FillDict(Runtime& runtime, Dict& dict, const Arguments& arguments) {
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.Is<Dict*>()) {
      for (const auto& [key, value] : source.As<Dict*>()->items)
        BATON_RETURN_IF_ERROR(runtime.Insert(dict, key, value));
    } else {
      BATON_ASSIGN_OR_RETURN(const std::vector<Value> pairs, runtime.Iterate(source));
      for (const Value& pair : pairs) {
        if (!pair.Is<List*>() || pair.As<List*>()->items.size() != 2) return InvalidArgument("dict takes pairs");
        BATON_RETURN_IF_ERROR(runtime.Insert(dict, pair.As<List*>()->items[0], pair.As<List*>()->items[1]));
      }
    }
  }
  for (const auto& [name, value] : arguments.keyword) {
    BATON_ASSIGN_OR_RETURN(const Value key, runtime.NewString(name, Origin::kTemplate));
    BATON_RETURN_IF_ERROR(runtime.Insert(dict, key, value));
  }
  return absl::OkStatus();
}

}  // namespace

bool HasFunction(std::string_view name) {
  return std::find(std::begin(kFunctions), std::end(kFunctions), name) != std::end(kFunctions);
}

absl::StatusOr<Value> CallFunction(Runtime& runtime, std::string_view name, const Arguments& arguments,
                                   const std::function<std::tm()>& clock, bool& raised) {
  BATON_RETURN_IF_ERROR(runtime.budget().Step());
  if (name == "raise_exception") return RaiseException(runtime, arguments, raised);
  if (name == "range") return RangeFunction(runtime, arguments);
  if (name == "strftime_now") {
    const Value* format = arguments.Find(0, "format");
    if (format == nullptr || !format->IsString()) return InvalidArgument("strftime_now needs a format");
    BATON_RETURN_IF_ERROR(runtime.budget().CheckString(format->bytes().size() * 16));
    return runtime.NewString(FormatTime(format->bytes(), clock()), format->text().OriginAt(0));
  }
  if (name == "namespace") {
    BATON_ASSIGN_OR_RETURN(Namespace * space, runtime.NewNamespace());
    BATON_RETURN_IF_ERROR(FillDict(runtime, space->attributes, arguments));
    return Value(space);
  }
  BATON_ASSIGN_OR_RETURN(Dict * dict, runtime.NewDict());
  BATON_RETURN_IF_ERROR(FillDict(runtime, *dict, arguments));
  return Value(dict);
}

namespace {

// One conversion; `padding` is what fills a number up to `width`, '\0' for nothing.
std::string Number(int value, int width, char padding) {
  std::string digits = std::to_string(value);
  if (padding == '\0' || static_cast<int>(digits.size()) >= width) return digits;
  return std::string(static_cast<size_t>(width) - digits.size(), padding) + digits;
}

std::string FormatConversion(char conversion, char flag, const std::tm& time) {
  const char zero = flag == '-' ? '\0' : flag == '_' ? ' ' : '0';
  const char space = flag == '-' ? '\0' : flag == '0' ? '0' : ' ';
  const int hour12 = time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12;
  const char* day = kDays[static_cast<size_t>(time.tm_wday) % 7];
  const char* month = kMonths[static_cast<size_t>(time.tm_mon) % 12];
  switch (conversion) {
    case 'A':
      return day;
    case 'a':
      return std::string(day, 3);
    case 'B':
      return month;
    case 'b':
    case 'h':
      return std::string(month, 3);
    case 'c':
      return FormatTime("%a %b %e %H:%M:%S %Y", time);
    case 'D':
    case 'x':
      return FormatTime("%m/%d/%y", time);
    case 'd':
      return Number(time.tm_mday, 2, zero);
    case 'e':
      return Number(time.tm_mday, 2, space);
    case 'F':
      return FormatTime("%Y-%m-%d", time);
    case 'H':
      return Number(time.tm_hour, 2, zero);
    case 'I':
      return Number(hour12, 2, zero);
    case 'j':
      return Number(time.tm_yday + 1, 3, zero);
    case 'k':
      return Number(time.tm_hour, 2, space);
    case 'l':
      return Number(hour12, 2, space);
    case 'M':
      return Number(time.tm_min, 2, zero);
    case 'm':
      return Number(time.tm_mon + 1, 2, zero);
    case 'n':
      return "\n";
    case 'p':
      return time.tm_hour < 12 ? "AM" : "PM";
    case 'R':
      return FormatTime("%H:%M", time);
    case 'S':
      return Number(time.tm_sec, 2, zero);
    case 'T':
    case 'X':
      return FormatTime("%H:%M:%S", time);
    case 't':
      return "\t";
    case 'u':
      return std::to_string(time.tm_wday == 0 ? 7 : time.tm_wday);
    case 'w':
      return std::to_string(time.tm_wday);
    case 'Y':
      return std::to_string(time.tm_year + 1900);
    case 'y':
      return Number(time.tm_year % 100, 2, zero);
    case '%':
      return "%";
    default:
      return {};
  }
}

}  // namespace

std::string FormatTime(std::string_view format, const std::tm& time) {
  std::string result;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%') {
      result += format[at];
      continue;
    }
    const size_t begin = at++;
    char flag = '\0';
    if (at < format.size() && (format[at] == '-' || format[at] == '_' || format[at] == '0')) flag = format[at++];
    const std::string text = at < format.size() ? FormatConversion(format[at], flag, time) : std::string();
    if (text.empty()) {
      result += format.substr(begin, at - begin + 1);
    } else {
      result += text;
    }
  }
  return result;
}

}  // namespace baton::jinja
