#include "common/text/jinja_tests.h"

#include <string>
#include <utility>

#include "common/text/jinja_filters.h"
#include "common/text/jinja_operators.h"

namespace baton::jinja {

namespace {

using Test = absl::StatusOr<bool> (*)(Runtime& runtime, const Value& value, const Arguments& arguments);

template <Comparison kComparison>
absl::StatusOr<bool> CompareTest(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (arguments.positional.size() != 1) return InvalidArgument("this test compares with one value");
  return Compare(runtime, kComparison, value, arguments.positional[0]);
}

// Undefined acts as an empty sequence.
bool IsSequence(const Value& value) {
  return value.IsString() || value.Is<List*>() || value.Is<Dict*>() || value.IsUndefined();
}

template <int64_t kRemainder>
absl::StatusOr<bool> ParityTest(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty()) return InvalidArgument("this test takes no argument");
  BATON_ASSIGN_OR_RETURN(const Value remainder, Calculate(runtime, Operator::kModulo, value, int64_t{2}));
  return ScalarEqual(remainder, kRemainder);
}

absl::StatusOr<bool> DivisibleTest(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (arguments.positional.size() != 1) return InvalidArgument("divisibleby needs one number");
  BATON_ASSIGN_OR_RETURN(const Value remainder, Calculate(runtime, Operator::kModulo, value, arguments.positional[0]));
  return ScalarEqual(remainder, int64_t{0});
}

// Some letter has the case, and none the other.
template <Case kWanted, Case kOther>
absl::StatusOr<bool> CaseTest(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!arguments.positional.empty()) return InvalidArgument("this test takes no argument");
  BATON_ASSIGN_OR_RETURN(const Text text, runtime.ToText(value));
  return ChangeCase(text, kWanted).bytes() == text.bytes() && ChangeCase(text, kOther).bytes() != text.bytes();
}

absl::StatusOr<bool> SameAsTest(Runtime&, const Value& value, const Arguments& arguments) {
  if (arguments.positional.size() != 1) return InvalidArgument("sameas needs one value");
  const Value& other = arguments.positional[0];
  return value.data().index() == other.data().index() && ScalarEqual(value, other);
}

bool NamesSomething(const Value& value, bool (*exists)(std::string_view)) {
  return value.IsString() && exists(value.bytes());
}

// A test of the value alone, which takes no arguments.
#define BATON_TEST_OF_VALUE(condition)                                                        \
  [](Runtime&, const Value& value, const Arguments& arguments) -> absl::StatusOr<bool> {      \
    if (!arguments.positional.empty()) return InvalidArgument("this test takes no argument"); \
    return condition;                                                                         \
  }

constexpr std::pair<std::string_view, Test> kTests[] = {
    {"defined", BATON_TEST_OF_VALUE(!value.IsUndefined())},
    {"undefined", BATON_TEST_OF_VALUE(value.IsUndefined())},
    {"none", BATON_TEST_OF_VALUE(value.IsNone())},
    {"boolean", BATON_TEST_OF_VALUE(value.Is<bool>())},
    {"true", BATON_TEST_OF_VALUE(value.Is<bool>() && value.As<bool>())},
    {"false", BATON_TEST_OF_VALUE(value.Is<bool>() && !value.As<bool>())},
    {"integer", BATON_TEST_OF_VALUE(value.Is<int64_t>())},
    {"float", BATON_TEST_OF_VALUE(value.Is<double>())},
    {"number", BATON_TEST_OF_VALUE(value.IsNumber())},
    {"string", BATON_TEST_OF_VALUE(value.IsString())},
    {"mapping", BATON_TEST_OF_VALUE(value.Is<Dict*>())},
    {"sequence", BATON_TEST_OF_VALUE(IsSequence(value))},
    {"iterable", BATON_TEST_OF_VALUE(IsSequence(value) || value.Is<Loop*>())},
    {"callable", BATON_TEST_OF_VALUE(value.Is<Callable*>() || value.Is<Loop*>() || value.IsUndefined())},
    {"escaped", BATON_TEST_OF_VALUE((static_cast<void>(value), false))},
    {"filter", BATON_TEST_OF_VALUE(NamesSomething(value, HasFilter))},
    {"test", BATON_TEST_OF_VALUE(NamesSomething(value, HasTest))},
    {"odd", ParityTest<1>},
    {"even", ParityTest<0>},
    {"lower", CaseTest<Case::kLower, Case::kUpper>},
    {"upper", CaseTest<Case::kUpper, Case::kLower>},
    {"divisibleby", DivisibleTest},
    {"sameas", SameAsTest},
    {"eq", CompareTest<Comparison::kEqual>},
    {"==", CompareTest<Comparison::kEqual>},
    {"equalto", CompareTest<Comparison::kEqual>},
    {"ne", CompareTest<Comparison::kNotEqual>},
    {"!=", CompareTest<Comparison::kNotEqual>},
    {"lt", CompareTest<Comparison::kLess>},
    {"<", CompareTest<Comparison::kLess>},
    {"lessthan", CompareTest<Comparison::kLess>},
    {"le", CompareTest<Comparison::kLessEqual>},
    {"<=", CompareTest<Comparison::kLessEqual>},
    {"gt", CompareTest<Comparison::kGreater>},
    {">", CompareTest<Comparison::kGreater>},
    {"greaterthan", CompareTest<Comparison::kGreater>},
    {"ge", CompareTest<Comparison::kGreaterEqual>},
    {">=", CompareTest<Comparison::kGreaterEqual>},
    {"in", CompareTest<Comparison::kIn>},
};

#undef BATON_TEST_OF_VALUE

Test FindTest(std::string_view name) {
  for (const auto& [known, test] : kTests) {
    if (known == name) return test;
  }
  return nullptr;
}

}  // namespace

bool HasTest(std::string_view name) { return FindTest(name) != nullptr; }

absl::StatusOr<bool> ApplyTest(Runtime& runtime, std::string_view name, const Value& value,
                               const Arguments& arguments) {
  const Test test = FindTest(name);
  if (test == nullptr) return InvalidArgument("no test named '%s'", std::string(name.substr(0, 40)));
  BATON_RETURN_IF_ERROR(runtime.budget().Step());
  return test(runtime, value, arguments);
}

}  // namespace baton::jinja
