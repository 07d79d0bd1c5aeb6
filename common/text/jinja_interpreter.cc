#include "common/text/jinja_interpreter.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/text/jinja_functions.h"

namespace baton::jinja {

class Interpreter::Frame {
 public:
  explicit Frame(Interpreter& interpreter) : Frame(interpreter, interpreter.scope_) {}
  Frame(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), outer_(interpreter.scope_), scope_(std::make_unique<Scope>(parent)) {
    interpreter_.scope_ = scope_.get();
  }
  ~Frame() {
    interpreter_.scope_ = outer_;
    if (scope_->is_captured()) interpreter_.captured_scopes_.push_back(std::move(scope_));
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Interpreter& interpreter_;
  Scope* const outer_;
  std::unique_ptr<Scope> scope_;
};

namespace {

Symbol SymbolOf(const Program& program, std::string_view name) {
  const auto found = std::find(program.symbols.begin(), program.symbols.end(), name);
  return found == program.symbols.end() ? -1 : static_cast<Symbol>(found - program.symbols.begin());
}

}  // namespace

Interpreter::Interpreter(const Program& program, const RenderLimits& limits, const std::function<std::tm()>& clock)
    : program_(program),
      clock_(clock),
      runtime_(limits),
      root_(std::make_unique<Scope>(nullptr)),
      loop_symbol_(SymbolOf(program, "loop")),
      caller_symbol_(SymbolOf(program, "caller")),
      varargs_symbol_(SymbolOf(program, "varargs")),
      kwargs_symbol_(SymbolOf(program, "kwargs")) {
  scope_ = root_.get();
}

void Interpreter::Define(std::string_view name, Value value) {
  if (const Symbol symbol = SymbolOf(program_, name); symbol >= 0) root_->Set(symbol, std::move(value));
}

void Interpreter::Locate(Position at) {
  if (!std::exchange(located_, true)) error_at_ = at;
}

absl::StatusOr<Text> Interpreter::Run() {
  const absl::StatusOr<Flow> flow = Execute(program_.body);
  if (flow.ok()) return std::move(output_);
  if (raised_) return WithContext(flow.status(), "chat template");
  return WithContext(flow.status(),
                     absl::StrFormat("chat template, line %d, column %d", error_at_.line, error_at_.column));
}

absl::Status Interpreter::Emit(const Text& text) {
  BATON_RETURN_IF_ERROR(runtime_.budget().Output(output_.memory_bytes() + text.size()));
  BATON_RETURN_IF_ERROR(runtime_.budget().Step(static_cast<int64_t>(text.size() / 64)));
  output_.Append(text);
  return absl::OkStatus();
}

absl::StatusOr<Interpreter::Flow> Interpreter::Execute(const Block& block) {
  for (const auto& statement : block) {
    absl::StatusOr<Flow> flow = ExecuteStatement(*statement);
    if (!flow.ok()) Locate(statement->at);
    if (!flow.ok() || *flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteStatement(const Statement& statement) {
  const Budget::Nesting nesting(runtime_.budget());
  BATON_RETURN_IF_ERROR(nesting.Check());
  BATON_RETURN_IF_ERROR(runtime_.budget().Step());
  switch (statement.kind) {
    case Statement::Kind::kText:
      BATON_RETURN_IF_ERROR(Emit(statement.constant.text()));
      return Flow::kNext;
    case Statement::Kind::kPrint: {
      BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value));
      if (value.IsString()) {
        BATON_RETURN_IF_ERROR(Emit(value.text()));
      } else {
        BATON_ASSIGN_OR_RETURN(const Text text, runtime_.ToText(value));
        BATON_RETURN_IF_ERROR(Emit(text));
      }
      return Flow::kNext;
    }
    case Statement::Kind::kSet: {
      BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*statement.value));
      BATON_RETURN_IF_ERROR(Assign(*statement.target, std::move(value)));
      return Flow::kNext;
    }
    case Statement::Kind::kSetBlock:
    case Statement::Kind::kFilter: {
      BATON_ASSIGN_OR_RETURN(Value value, CaptureBlock(statement.body));
      if (statement.value != nullptr) {
        BATON_ASSIGN_OR_RETURN(value, EvaluateFilter(*statement.value, &value));
      }
      if (statement.kind == Statement::Kind::kSetBlock) {
        BATON_RETURN_IF_ERROR(Assign(*statement.target, std::move(value)));
      } else {
        BATON_ASSIGN_OR_RETURN(const Text text, runtime_.ToText(value));
        BATON_RETURN_IF_ERROR(Emit(text));
      }
      return Flow::kNext;
    }
    case Statement::Kind::kFor:
      return ExecuteFor(statement);
    case Statement::Kind::kIf:
      return ExecuteIf(statement);
    case Statement::Kind::kMacro: {
      BATON_ASSIGN_OR_RETURN(Value macro, DefineMacro(statement));
      scope_->Set(statement.symbol, std::move(macro));
      return Flow::kNext;
    }
    case Statement::Kind::kCall:
      BATON_RETURN_IF_ERROR(ExecuteCallBlock(statement));
      return Flow::kNext;
    case Statement::Kind::kWith:
      return ExecuteWith(statement);
    case Statement::Kind::kScope: {
      const Frame frame(*this);
      return Execute(statement.body);
    }
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteFor(const Statement& statement) {
  BATON_ASSIGN_OR_RETURN(const Value iterable, Evaluate(*statement.value));
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime_.Iterate(iterable));
  if (statement.test != nullptr) {
    std::vector<Value> kept;
    for (Value& item : items) {
      const Frame frame(*this);
      BATON_RETURN_IF_ERROR(Assign(*statement.target, item));
      BATON_ASSIGN_OR_RETURN(const Value passes, Evaluate(*statement.test));
      if (passes.Truth()) kept.push_back(std::move(item));
    }
    items = std::move(kept);
  }
  // jinja2 takes the else branch if no round came to its end, so also after a break or continue in every round.
  bool completed_a_round = false;
  BATON_ASSIGN_OR_RETURN(Loop * loop, runtime_.NewLoop(std::move(items)));
  for (size_t i = 0; i < loop->items.size(); ++i) {
    BATON_RETURN_IF_ERROR(runtime_.budget().Step());
    loop->index0 = static_cast<int64_t>(i);
    const Frame frame(*this);
    if (loop_symbol_ >= 0) scope_->Set(loop_symbol_, loop);
    BATON_RETURN_IF_ERROR(Assign(*statement.target, loop->items[i]));
    BATON_ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body));
    if (flow == Flow::kBreak) break;
    completed_a_round = completed_a_round || flow == Flow::kNext;
  }
  if (completed_a_round) return Flow::kNext;
  const Frame frame(*this);
  return Execute(statement.otherwise);
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteIf(const Statement& statement) {
  for (const Statement::Branch& branch : statement.branches) {
    BATON_ASSIGN_OR_RETURN(const Value test, Evaluate(*branch.test));
    if (test.Truth()) return Execute(branch.body);
  }
  return Execute(statement.otherwise);
}

absl::StatusOr<Interpreter::Flow> Interpreter::ExecuteWith(const Statement& statement) {
  std::vector<Value> values;
  for (const auto& [target, expression] : statement.assignments) {
    BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  const Frame frame(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    BATON_RETURN_IF_ERROR(Assign(*statement.assignments[i].first, std::move(values[i])));
  }
  return Execute(statement.body);
}

absl::StatusOr<Value> Interpreter::DefineMacro(const Statement& statement) {
  BATON_ASSIGN_OR_RETURN(Callable * macro,
                         runtime_.NewCallable({.kind = Callable::Kind::kMacro, .name = statement.name}));
  macro->macro = &statement;
  macro->closure = scope_;
  scope_->Capture();
  return Value(macro);
}

absl::Status Interpreter::ExecuteCallBlock(const Statement& statement) {
  BATON_ASSIGN_OR_RETURN(const Value caller, DefineMacro(statement));
  BATON_ASSIGN_OR_RETURN(const Value value, EvaluateCall(*statement.value, &caller));
  BATON_ASSIGN_OR_RETURN(const Text text, runtime_.ToText(value));
  return Emit(text);
}

absl::StatusOr<Value> Interpreter::CallMacro(const Callable& macro, Arguments arguments) {
  const Budget::Nesting nesting(runtime_.budget());
  BATON_RETURN_IF_ERROR(nesting.Check());
  Text outer = std::exchange(output_, Text());
  absl::Status status;
  {
    const Frame frame(*this, macro.closure);
    status = BindParameters(*macro.macro, arguments);
    if (status.ok()) status = Execute(macro.macro->body).status();
  }
  Text text = std::exchange(output_, std::move(outer));
  BATON_RETURN_IF_ERROR(status);
  return runtime_.NewString(std::move(text));
}

// As jinja2 does: positional, then named, then defaults; the rest is in varargs and kwargs if the macro names these.
absl::Status Interpreter::BindParameters(const Statement& macro, const Arguments& arguments) {
  const std::vector<Parameter>& parameters = macro.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (const Value* given = arguments.Find(i, parameters[i].name)) {
      scope_->Set(parameters[i].symbol, *given);
    } else if (parameters[i].default_value != nullptr) {
      BATON_ASSIGN_OR_RETURN(Value value, Evaluate(*parameters[i].default_value));
      scope_->Set(parameters[i].symbol, std::move(value));
    } else {
      scope_->Set(parameters[i].symbol, Undefined{});
    }
  }
  if (arguments.positional.size() > parameters.size() && varargs_symbol_ < 0) {
    return InvalidArgument("macro '%s' takes %d arguments, %d are given", macro.name, parameters.size(),
                           arguments.positional.size());
  }
  if (varargs_symbol_ >= 0) {
    const size_t taken = std::min(parameters.size(), arguments.positional.size());
    BATON_ASSIGN_OR_RETURN(Value rest, runtime_.NewList({arguments.positional.begin() + static_cast<ptrdiff_t>(taken),
                                                         arguments.positional.end()},
                                                        true));
    scope_->Set(varargs_symbol_, std::move(rest));
  }
  if (caller_symbol_ >= 0) scope_->Set(caller_symbol_, Undefined{});
  Dict* rest = nullptr;
  if (kwargs_symbol_ >= 0) {
    BATON_ASSIGN_OR_RETURN(rest, runtime_.NewDict());
    scope_->Set(kwargs_symbol_, rest);
  }
  for (const auto& [name, value] : arguments.keyword) {
    const bool known =
        std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& p) { return p.name == name; });
    if (known) continue;
    if (name == "caller" && caller_symbol_ >= 0) {
      scope_->Set(caller_symbol_, value);
    } else if (rest != nullptr) {
      BATON_ASSIGN_OR_RETURN(const Value key, runtime_.NewString(name, Origin::kTemplate));
      BATON_RETURN_IF_ERROR(runtime_.Insert(*rest, key, value));
    } else {
      return InvalidArgument("macro '%s' has no parameter '%s'", macro.name, name);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Interpreter::CaptureBlock(const Block& block) {
  Text outer = std::exchange(output_, Text());
  absl::StatusOr<Flow> flow = Flow::kNext;
  {
    const Frame frame(*this);
    flow = Execute(block);
  }
  Text captured = std::exchange(output_, std::move(outer));
  if (!flow.ok()) return flow.status();
  return runtime_.NewString(std::move(captured));
}

absl::Status Interpreter::Assign(const Expression& target, Value value) {
  switch (target.kind) {
    case Expression::Kind::kName:
      scope_->Set(target.symbol, std::move(value));
      return absl::OkStatus();
    case Expression::Kind::kNamespaceRef: {
      const Value* space = scope_->Find(target.symbol);
      if (space == nullptr || !space->Is<Namespace*>()) {
        return InvalidArgument("cannot assign to an attribute of '%s', which is no namespace",
                               program_.symbols[static_cast<size_t>(target.symbol)]);
      }
      BATON_ASSIGN_OR_RETURN(const Value key, runtime_.NewString(target.name, Origin::kTemplate));
      Dict& attributes = space->As<Namespace*>()->attributes;
      if (attributes.Find(key) == nullptr) return runtime_.Insert(attributes, key, std::move(value));
      attributes.Set(key, std::move(value));
      return absl::OkStatus();
    }
    default:
      break;
  }
  BATON_ASSIGN_OR_RETURN(std::vector<Value> items, runtime_.Iterate(value));
  if (items.size() != target.operands.size()) {
    return InvalidArgument("%d values for %d variables", items.size(), target.operands.size());
  }
  for (size_t i = 0; i < items.size(); ++i) {
    BATON_RETURN_IF_ERROR(Assign(*target.operands[i], std::move(items[i])));
  }
  return absl::OkStatus();
}

}  // namespace baton::jinja
