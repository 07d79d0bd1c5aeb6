#include "common/text/jinja_operators.h"

#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace baton::jinja {

namespace {

absl::Status Overflow() { return InvalidArgument("an integer does not fit in 64 bits"); }
absl::Status DivisionByZero() { return InvalidArgument("division by zero"); }

absl::StatusOr<Value> PowerOfIntegers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return DivisionByZero();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  if (base == 0 || base == 1) return Value(exponent == 0 ? result : base);
  if (base == -1) return Value(exponent % 2 == 0 ? int64_t{1} : int64_t{-1});
  for (; exponent > 0; --exponent) {  // at most 63 rounds before it overflows
    if (__builtin_mul_overflow(result, base, &result)) return Overflow();
  }
  return Value(result);
}

absl::StatusOr<Value> CalculateIntegers(Operator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return Overflow();
      return Value(result);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return Overflow();
      return Value(result);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return Overflow();
      return Value(result);
    case Operator::kDivide:
      if (b == 0) return DivisionByZero();
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kPower:
      return PowerOfIntegers(a, b);
    case Operator::kFloorDivide:
    case Operator::kModulo:
      break;
  }
  if (b == 0) return DivisionByZero();
  if (b == -1) {  // the smallest integer has no negative
    if (op == Operator::kModulo) return Value(int64_t{0});
    if (__builtin_sub_overflow(int64_t{0}, a, &result)) return Overflow();
    return Value(result);
  }
  const int64_t remainder = a % b;
  const bool adjust = remainder != 0 && (remainder < 0) != (b < 0);  // Python rounds towards minus infinity
  return Value(op == Operator::kModulo ? remainder + (adjust ? b : 0) : a / b - (adjust ? 1 : 0));
}

absl::StatusOr<Value> CalculateFloats(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSubtract:
      return Value(a - b);
    case Operator::kMultiply:
      return Value(a * b);
    case Operator::kPower:
      return Value(std::pow(a, b));
    case Operator::kDivide:
    case Operator::kFloorDivide:
    case Operator::kModulo:
      break;
  }
  if (b == 0) return DivisionByZero();
  if (op == Operator::kDivide) return Value(a / b);
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == Operator::kModulo) return Value(remainder == 0 ? std::copysign(0.0, b) : remainder);
  const double quotient = std::round((a - remainder) / b);
  return Value(quotient == 0 ? std::copysign(0.0, a / b) : quotient);
}

absl::StatusOr<Value> Repeat(Runtime& runtime, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(0, count));
  const size_t size = value.IsString() ? value.text().size() : value.As<List*>()->items.size();
  if (size > 0 && times > std::numeric_limits<uint32_t>::max()) {
    return ResourceExhausted("chat template repeats a value %d times", count);
  }
  if (value.IsString()) {
    BATON_RETURN_IF_ERROR(runtime.budget().CheckString(size * times));
    Text result, doubled = value.text();
    for (size_t rest = size == 0 ? 0 : times; rest > 0; rest /= 2) {
      if (rest % 2 == 1) result.Append(doubled);
      if (rest > 1) doubled.Append(Text(doubled));
    }
    return runtime.NewString(std::move(result));
  }
  const List& list = *value.As<List*>();
  BATON_RETURN_IF_ERROR(runtime.budget().ReserveItems(size * times));
  std::vector<Value> items;
  for (size_t i = 0; i < times && size > 0; ++i) items.insert(items.end(), list.items.begin(), list.items.end());
  return runtime.NewList(std::move(items), list.is_tuple);
}

}  // namespace

absl::StatusOr<Value> Calculate(Runtime& runtime, Operator op, const Value& a, const Value& b) {
  if (a.IsUndefined()) return Runtime::UndefinedError(a);
  if (op == Operator::kModulo && a.IsString()) {
    if (b.Is<List*>() && b.As<List*>()->is_tuple) return FormatPercent(runtime, a.text(), b.As<List*>()->items, false);
    // Python lets what could be a mapping go unused.
    return FormatPercent(runtime, a.text(), {b}, b.Is<List*>() || b.Is<Dict*>() || b.IsUndefined());
  }
  if (b.IsUndefined()) return Runtime::UndefinedError(b);
  if (a.IsNumber() && b.IsNumber()) {
    return a.IsInteger() && b.IsInteger() ? CalculateIntegers(op, a.integer(), b.integer())
                                          : CalculateFloats(op, a.number(), b.number());
  }
  if (op == Operator::kAdd) {
    if (a.IsString() && b.IsString()) {
      BATON_RETURN_IF_ERROR(runtime.budget().CheckString(a.text().size() + b.text().size()));
      Text sum = a.text();
      sum.Append(b.text());
      return runtime.NewString(std::move(sum));
    }
    if (a.Is<List*>() && b.Is<List*>() && a.As<List*>()->is_tuple == b.As<List*>()->is_tuple) {
      const std::vector<Value>& right = b.As<List*>()->items;
      std::vector<Value> items = a.As<List*>()->items;
      items.insert(items.end(), right.begin(), right.end());
      return runtime.NewList(std::move(items), a.As<List*>()->is_tuple);
    }
  }
  if (op == Operator::kMultiply) {
    if (b.IsInteger() && (a.IsString() || a.Is<List*>())) return Repeat(runtime, a, b.integer());
    if (a.IsInteger() && (b.IsString() || b.Is<List*>())) return Repeat(runtime, b, a.integer());
  }
  static constexpr const char* kNames[] = {"+", "-", "*", "/", "//", "%", "**"};
  return InvalidArgument("operator %s does not work between %s and %s", kNames[static_cast<int>(op)], a.TypeName(),
                         b.TypeName());
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.Is<double>()) return Value(-value.As<double>());
  if (!value.IsInteger()) return Runtime::TypeError("the operand of -", value);
  if (value.integer() == std::numeric_limits<int64_t>::min()) return Overflow();
  return Value(-value.integer());
}

absl::StatusOr<bool> Compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  switch (comparison) {
    case Comparison::kEqual:
      return runtime.Equal(a, b);
    case Comparison::kNotEqual: {
      BATON_ASSIGN_OR_RETURN(const bool equal, runtime.Equal(a, b));
      return !equal;
    }
    case Comparison::kIn:
      return runtime.Contains(b, a);
    case Comparison::kNotIn: {
      BATON_ASSIGN_OR_RETURN(const bool contains, runtime.Contains(b, a));
      return !contains;
    }
    default:
      break;
  }
  BATON_ASSIGN_OR_RETURN(const int order, runtime.Order(a, b));
  switch (comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kLessEqual:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

}  // namespace baton::jinja
