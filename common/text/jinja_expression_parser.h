#pragma once

// Expressions of a template, with jinja2's precedence. Used by the parser of statements, which owns the tokens.

#include <algorithm>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja_ast.h"

namespace baton::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& Current() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void Advance() { at_ += at_ + 1 < tokens_.size(); }

  bool IsOperator(std::string_view op) const { return Is(Token::Kind::kOperator, op); }
  bool IsName(std::string_view name) const { return Is(Token::Kind::kName, name); }
  bool IsAnyName(std::initializer_list<std::string_view> names) const;
  bool SkipOperator(std::string_view op);
  bool SkipName(std::string_view name);
  absl::Status ExpectOperator(std::string_view op);
  absl::Status ExpectName(std::string_view name);
  absl::Status Expect(Token::Kind kind, std::string_view what);
  // Any name; consumes it.
  absl::StatusOr<std::string> TakeName();
  absl::Status Unexpected(std::string_view wanted) const;

 private:
  bool Is(Token::Kind kind, std::string_view text) const { return Current().kind == kind && Current().text == text; }

  std::vector<Token> tokens_;
  size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  absl::StatusOr<ExpressionPtr> ParseExpression(bool with_conditional = true);
  // One expression, or several with commas between them as a tuple; `end_name` ends it besides the end of the tag.
  absl::StatusOr<ExpressionPtr> ParseTuple(bool with_conditional = true, std::string_view end_name = {},
                                           bool allow_empty = false);
  // A name, namespace.attribute, or a tuple of them.
  absl::StatusOr<ExpressionPtr> ParseTarget(bool with_namespace, bool with_tuple = true);
  // `| name(...) | ...`; `first_without_pipe`: the first filter's name comes at once. Null if there is none.
  absl::StatusOr<ExpressionPtr> ParseFilters(ExpressionPtr operand, bool first_without_pipe = false);

  Symbol Intern(const std::string& name);
  const std::vector<std::string>& symbols() const { return symbols_; }

  // Within a condition an unknown filter or test is an error only once it is reached, as in jinja2.
  void EnterCondition() { ++conditions_; }
  void LeaveCondition() { --conditions_; }
  // The first unknown filter or test outside of conditions, if any.
  absl::Status CheckKnown() const;

 private:
  using Kind = Expression::Kind;
  using Result = absl::StatusOr<ExpressionPtr>;

  Result ParseConditional();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseCompare();
  Result ParseSum();
  Result ParseConcatenate();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filter);
  Result ParsePrimary();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ExpressionPtr operand);
  Result ParseFiltersAndTests(ExpressionPtr operand);
  Result ParseSubscript(ExpressionPtr operand);
  Result ParseCall(ExpressionPtr operand);
  Result ParseTest(ExpressionPtr operand);
  absl::StatusOr<std::unique_ptr<CallArguments>> ParseArguments();
  Result ParseTargetName(bool with_namespace);

  ExpressionPtr New(Kind kind, Position at) const;
  // Refuses trees that would be too deep to walk recursively.
  Result Finish(ExpressionPtr node) const;
  Result Binary(Kind kind, ExpressionPtr left, ExpressionPtr right) const;
  Result Arithmetic(Operator op, Position at, ExpressionPtr left, ExpressionPtr right) const;

  void NoteUnknown(Position at, std::string reason);

  struct Unknown {
    Position at;
    std::string reason;
  };
  class Nesting;

  TokenStream& tokens_;
  std::vector<std::string> symbols_;
  std::map<std::string, Symbol> symbol_of_;
  int depth_ = 0;
  int conditions_ = 0;
  std::vector<Unknown> unknown_;
};

}  // namespace baton::jinja
