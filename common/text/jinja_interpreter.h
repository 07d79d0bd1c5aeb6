#pragma once

// Walks a parsed template once. Not thread safe; one per render.

#include <ctime>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja_ast.h"
#include "common/text/jinja_runtime.h"
#include "common/text/jinja_scope.h"

namespace baton::jinja {

class Interpreter {
 public:
  // `program` and `clock` must outlive it.
  Interpreter(const Program& program, const RenderLimits& limits, const std::function<std::tm()>& clock);

  Runtime& runtime() { return runtime_; }
  // A variable of the outermost scope; ignored if the template never names it.
  void Define(std::string_view name, Value value);
  // Once. INVALID_ARGUMENT: raise_exception, or an error with line and column. RESOURCE_EXHAUSTED: a limit.
  absl::StatusOr<Text> Run();

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Frame;  // a scope while its body runs

  absl::StatusOr<Flow> Execute(const Block& block);
  absl::StatusOr<Flow> ExecuteStatement(const Statement& statement);
  absl::StatusOr<Flow> ExecuteFor(const Statement& statement);
  absl::StatusOr<Flow> ExecuteIf(const Statement& statement);
  absl::StatusOr<Flow> ExecuteWith(const Statement& statement);
  absl::Status ExecuteCallBlock(const Statement& statement);
  absl::StatusOr<Value> DefineMacro(const Statement& statement);
  // The output of `block`, run in a scope of its own.
  absl::StatusOr<Value> CaptureBlock(const Block& block);
  absl::Status Emit(const Text& text);
  absl::Status Assign(const Expression& target, Value value);

  absl::StatusOr<Value> Evaluate(const Expression& expression);
  absl::StatusOr<Value> EvaluateNode(const Expression& expression);
  absl::StatusOr<Value> EvaluateName(const Expression& expression);
  absl::StatusOr<Value> EvaluateSlice(const Expression& expression);
  absl::StatusOr<Value> EvaluateCompare(const Expression& expression);
  absl::StatusOr<Value> EvaluateConcatenate(const Expression& expression);
  absl::StatusOr<Value> EvaluateConditional(const Expression& expression);
  absl::StatusOr<Value> EvaluateList(const Expression& expression);
  absl::StatusOr<Value> EvaluateDict(const Expression& expression);
  absl::StatusOr<Value> EvaluateArithmetic(const Expression& expression);
  absl::StatusOr<Value> EvaluateTest(const Expression& expression);
  absl::StatusOr<Value> EvaluateFilter(const Expression& expression, const Value* block_text);
  absl::StatusOr<Value> EvaluateCall(const Expression& expression, const Value* caller = nullptr);
  absl::StatusOr<Arguments> EvaluateArguments(const CallArguments& arguments);
  absl::StatusOr<Value> Call(const Value& callee, Arguments arguments);
  absl::StatusOr<Value> CallMacro(const Callable& macro, Arguments arguments);
  absl::Status BindParameters(const Statement& macro, const Arguments& arguments);

  // Remembers the innermost place of an error.
  void Locate(Position at);

  const Program& program_;
  const std::function<std::tm()>& clock_;
  Runtime runtime_;
  Text output_;  // of the innermost captured block
  Scope* scope_ = nullptr;
  std::unique_ptr<Scope> root_;
  std::vector<std::unique_ptr<Scope>> captured_scopes_;
  Symbol loop_symbol_, caller_symbol_, varargs_symbol_, kwargs_symbol_;
  bool raised_ = false;
  bool located_ = false;
  Position error_at_;
};

}  // namespace baton::jinja
