// Expressions and calls of the interpreter.

#include <utility>
#include <vector>

#include "common/text/jinja_filters.h"
#include "common/text/jinja_functions.h"
#include "common/text/jinja_interpreter.h"
#include "common/text/jinja_methods.h"
#include "common/text/jinja_operators.h"
#include "common/text/jinja_tests.h"

namespace baton::jinja {

absl::StatusOr<Value> Interpreter::Evaluate(const Expression& expression) {
  const Budget::Nesting nesting(runtime_.budget());
  absl::Status allowed = nesting.Check();
  if (allowed.ok()) allowed = runtime_.budget().Step();
  absl::StatusOr<Value> value = allowed.ok() ? EvaluateNode(expression) : absl::StatusOr<Value>(std::move(allowed));
  if (!value.ok()) Locate(expression.at);
  return value;
}

absl::StatusOr<Value> Interpreter::EvaluateNode(const Expression& expression) {
  using Kind = Expression::Kind;
  switch (expression.kind) {
    case Kind::kConstant:
      return expression.constant;
    case Kind::kName:
    case Kind::kNamespaceRef:
      return EvaluateName(expression);
    case Kind::kAttribute: {
      BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0]));
      return runtime_.Attribute(value, expression.name, &expression);
    }
    case Kind::kItem: {
      BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0]));
      BATON_ASSIGN_OR_RETURN(const Value key, Evaluate(*expression.operands[1]));
      return runtime_.Item(value, key, &expression);
    }
    case Kind::kSlice:
      return EvaluateSlice(expression);
    case Kind::kCall:
      return EvaluateCall(expression);
    case Kind::kFilter:
      return EvaluateFilter(expression, nullptr);
    case Kind::kTest:
      return EvaluateTest(expression);
    case Kind::kNot: {
      BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0]));
      return Value(!value.Truth());
    }
    case Kind::kNegate:
    case Kind::kPlus: {
      BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0]));
      if (expression.kind == Kind::kNegate) return Negate(value);
      if (!value.IsNumber()) return Runtime::TypeError("the operand of +", value);
      return value.Is<bool>() ? Value(value.integer()) : value;
    }
    case Kind::kAnd:
    case Kind::kOr: {
      BATON_ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0]));
      if (left.Truth() == (expression.kind == Kind::kOr)) return left;
      return Evaluate(*expression.operands[1]);
    }
    case Kind::kArithmetic:
      return EvaluateArithmetic(expression);
    case Kind::kCompare:
      return EvaluateCompare(expression);
    case Kind::kConcatenate:
      return EvaluateConcatenate(expression);
    case Kind::kConditional:
      return EvaluateConditional(expression);
    case Kind::kList:
    case Kind::kTuple:
      return EvaluateList(expression);
    case Kind::kDict:
      return EvaluateDict(expression);
  }
  return Value();
}

absl::StatusOr<Value> Interpreter::EvaluateName(const Expression& expression) {
  if (const Value* value = scope_->Find(expression.symbol)) return *value;
  if (HasFunction(expression.name)) {
    BATON_ASSIGN_OR_RETURN(Callable * function,
                           runtime_.NewCallable({.kind = Callable::Kind::kFunction, .name = expression.name}));
    return Value(function);
  }
  return Value(Undefined{&expression});
}

absl::StatusOr<Value> Interpreter::EvaluateSlice(const Expression& expression) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (expression.operands[i] == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(parts[i], Evaluate(*expression.operands[i]));
  }
  return runtime_.Slice(parts[0], parts[1], parts[2], parts[3]);
}

absl::StatusOr<Value> Interpreter::EvaluateArithmetic(const Expression& expression) {
  BATON_ASSIGN_OR_RETURN(const Value left, Evaluate(*expression.operands[0]));
  BATON_ASSIGN_OR_RETURN(const Value right, Evaluate(*expression.operands[1]));
  return Calculate(runtime_, expression.op, left, right);
}

absl::StatusOr<Value> Interpreter::EvaluateCompare(const Expression& expression) {
  BATON_ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0]));
  for (size_t i = 0; i < expression.comparisons.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(Value right, Evaluate(*expression.operands[i + 1]));
    BATON_ASSIGN_OR_RETURN(const bool holds, Compare(runtime_, expression.comparisons[i], left, right));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

absl::StatusOr<Value> Interpreter::EvaluateConcatenate(const Expression& expression) {
  Text result;
  for (const ExpressionPtr& operand : expression.operands) {
    BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*operand));
    if (value.IsString()) {
      result.Append(value.text());
    } else {
      BATON_ASSIGN_OR_RETURN(const Text text, runtime_.ToText(value));
      result.Append(text);
    }
    BATON_RETURN_IF_ERROR(runtime_.budget().CheckString(result.size()));
  }
  return runtime_.NewString(std::move(result));
}

absl::StatusOr<Value> Interpreter::EvaluateConditional(const Expression& expression) {
  BATON_ASSIGN_OR_RETURN(const Value test, Evaluate(*expression.operands[1]));
  if (test.Truth()) return Evaluate(*expression.operands[0]);
  if (expression.operands[2] == nullptr) return Value(Undefined{&expression});
  return Evaluate(*expression.operands[2]);
}

absl::StatusOr<Value> Interpreter::EvaluateList(const Expression& expression) {
  std::vector<Value> items;
  items.reserve(expression.operands.size());
  for (const ExpressionPtr& operand : expression.operands) {
    BATON_ASSIGN_OR_RETURN(Value item, Evaluate(*operand));
    items.push_back(std::move(item));
  }
  return runtime_.NewList(std::move(items), expression.kind == Expression::Kind::kTuple);
}

absl::StatusOr<Value> Interpreter::EvaluateDict(const Expression& expression) {
  BATON_ASSIGN_OR_RETURN(Dict * dict, runtime_.NewDict());
  for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    BATON_ASSIGN_OR_RETURN(const Value key, Evaluate(*expression.operands[i]));
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*expression.operands[i + 1]));
    BATON_RETURN_IF_ERROR(runtime_.Insert(*dict, key, std::move(value)));
  }
  return Value(dict);
}

absl::StatusOr<Value> Interpreter::EvaluateTest(const Expression& expression) {
  BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[0]));
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(*expression.arguments));
  BATON_ASSIGN_OR_RETURN(const bool passes, ApplyTest(runtime_, expression.name, value, arguments));
  return Value(passes);
}

absl::StatusOr<Value> Interpreter::EvaluateFilter(const Expression& expression, const Value* block_text) {
  const Budget::Nesting nesting(runtime_.budget());
  BATON_RETURN_IF_ERROR(nesting.Check());
  const Expression* operand = expression.operands[0].get();
  Value value;
  if (operand == nullptr) {
    value = *block_text;
  } else if (block_text != nullptr) {
    // The chain of a block's filters ends at the block's text.
    BATON_ASSIGN_OR_RETURN(value, EvaluateFilter(*operand, block_text));
  } else {
    BATON_ASSIGN_OR_RETURN(value, Evaluate(*operand));
  }
  BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(*expression.arguments));
  return ApplyFilter(runtime_, expression.name, value, arguments);
}

absl::StatusOr<Arguments> Interpreter::EvaluateArguments(const CallArguments& arguments) {
  Arguments result;
  for (const ExpressionPtr& argument : arguments.positional) {
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*argument));
    result.positional.push_back(std::move(value));
  }
  for (const auto& [name, argument] : arguments.keyword) {
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*argument));
    result.keyword.emplace_back(name, std::move(value));
  }
  if (arguments.more_positional != nullptr) {
    BATON_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.more_positional));
    BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime_.Iterate(more));
    for (Value& item : items) result.positional.push_back(std::move(item));
  }
  if (arguments.more_keyword != nullptr) {
    BATON_ASSIGN_OR_RETURN(const Value more, Evaluate(*arguments.more_keyword));
    if (!more.Is<Dict*>()) return Runtime::TypeError("the operand of **", more);
    for (const auto& [name, value] : more.As<Dict*>()->items) {
      if (!name.IsString()) return Runtime::TypeError("the name of an argument", name);
      result.keyword.emplace_back(name.bytes(), value);
    }
  }
  return result;
}

absl::StatusOr<Value> Interpreter::EvaluateCall(const Expression& expression, const Value* caller) {
  const Expression& callee = *expression.operands[0];
  // A method or function called by its name needs no value of its own.
  if (callee.kind == Expression::Kind::kAttribute) {
    BATON_ASSIGN_OR_RETURN(const Value receiver, Evaluate(*callee.operands[0]));
    if (!receiver.IsUndefined() && HasMethod(receiver, callee.name)) {
      BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(*expression.arguments));
      return CallMethod(runtime_, receiver, callee.name, arguments);
    }
    BATON_ASSIGN_OR_RETURN(const Value function, runtime_.Attribute(receiver, callee.name, &callee));
    BATON_ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(*expression.arguments));
    if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
    return Call(function, std::move(arguments));
  }
  if (callee.kind == Expression::Kind::kName && HasFunction(callee.name) && scope_->Find(callee.symbol) == nullptr) {
    BATON_ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(*expression.arguments));
    return CallFunction(runtime_, callee.name, arguments, clock_, raised_);
  }
  BATON_ASSIGN_OR_RETURN(const Value function, Evaluate(callee));
  BATON_ASSIGN_OR_RETURN(Arguments arguments, EvaluateArguments(*expression.arguments));
  if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
  return Call(function, std::move(arguments));
}

absl::StatusOr<Value> Interpreter::Call(const Value& callee, Arguments arguments) {
  if (!callee.Is<Callable*>()) return Runtime::TypeError("what is called", callee);
  const Callable& callable = *callee.As<Callable*>();
  switch (callable.kind) {
    case Callable::Kind::kFunction:
      return CallFunction(runtime_, callable.name, arguments, clock_, raised_);
    case Callable::Kind::kMethod:
      return CallMethod(runtime_, callable.receiver, callable.name, arguments);
    case Callable::Kind::kMacro:
      return CallMacro(callable, std::move(arguments));
  }
  return Value();
}

}  // namespace baton::jinja
