#include "common/text/jinja_expression_parser.h"

#include "common/text/jinja_filters.h"
#include "common/text/jinja_tests.h"

namespace baton::jinja {

namespace {
constexpr int kMaximumNesting = 100;  // brackets in brackets; published templates stay below 20
constexpr int kMaximumHeight = 300;   // of a tree, which a chain of operators makes deep too
}  // namespace

bool TokenStream::IsAnyName(std::initializer_list<std::string_view> names) const {
  return Current().kind == Token::Kind::kName && std::find(names.begin(), names.end(), Current().text) != names.end();
}

bool TokenStream::SkipOperator(std::string_view op) {
  if (!IsOperator(op)) return false;
  Advance();
  return true;
}

bool TokenStream::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  Advance();
  return true;
}

absl::Status TokenStream::Unexpected(std::string_view wanted) const {
  const Token& token = Current();
  std::string found = "'" + token.text.substr(0, 40) + "'";
  if (token.kind == Token::Kind::kEnd) found = "the end of the template";
  if (token.kind == Token::Kind::kBlockEnd || token.kind == Token::Kind::kVariableEnd) found = "the end of the tag";
  return SyntaxError(token.at, "expected " + std::string(wanted) + ", found " + found);
}

absl::Status TokenStream::ExpectOperator(std::string_view op) {
  return SkipOperator(op) ? absl::OkStatus() : Unexpected("'" + std::string(op) + "'");
}

absl::Status TokenStream::ExpectName(std::string_view name) {
  return SkipName(name) ? absl::OkStatus() : Unexpected("'" + std::string(name) + "'");
}

absl::Status TokenStream::Expect(Token::Kind kind, std::string_view what) {
  if (Current().kind != kind) return Unexpected(what);
  Advance();
  return absl::OkStatus();
}

absl::StatusOr<std::string> TokenStream::TakeName() {
  if (Current().kind != Token::Kind::kName) return Unexpected("a name");
  std::string name = Current().text;
  Advance();
  return name;
}

class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) { ++parser_.depth_; }
  ~Nesting() { --parser_.depth_; }
  absl::Status Check() const {
    if (parser_.depth_ <= kMaximumNesting) return absl::OkStatus();
    return SyntaxError(parser_.tokens_.Current().at,
                       "nested deeper than the limit of " + std::to_string(kMaximumNesting) + " levels");
  }

 private:
  ExpressionParser& parser_;
};

Symbol ExpressionParser::Intern(const std::string& name) {
  const auto [entry, is_new] = symbol_of_.emplace(name, static_cast<Symbol>(symbols_.size()));
  if (is_new) symbols_.push_back(name);
  return entry->second;
}

void ExpressionParser::NoteUnknown(Position at, std::string reason) {
  if (conditions_ == 0) unknown_.push_back({at, std::move(reason)});
}

absl::Status ExpressionParser::CheckKnown() const {
  return unknown_.empty() ? absl::OkStatus() : SyntaxError(unknown_[0].at, unknown_[0].reason);
}

ExpressionPtr ExpressionParser::New(Kind kind, Position at) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->at = at;
  return node;
}

ExpressionParser::Result ExpressionParser::Finish(ExpressionPtr node) const {
  auto include = [&](const ExpressionPtr& child) {
    if (child != nullptr) node->height = std::max(node->height, child->height + 1);
  };
  for (const ExpressionPtr& operand : node->operands) include(operand);
  if (node->arguments != nullptr) {
    for (const ExpressionPtr& argument : node->arguments->positional) include(argument);
    for (const auto& [name, argument] : node->arguments->keyword) include(argument);
    include(node->arguments->more_positional);
    include(node->arguments->more_keyword);
  }
  if (node->height > kMaximumHeight) {
    return SyntaxError(node->at,
                       "expression deeper than the limit of " + std::to_string(kMaximumHeight) + " operations");
  }
  return node;
}

ExpressionParser::Result ExpressionParser::Binary(Kind kind, ExpressionPtr left, ExpressionPtr right) const {
  ExpressionPtr node = New(kind, left->at);
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::Arithmetic(Operator op, Position at, ExpressionPtr left,
                                                      ExpressionPtr right) const {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr node, Binary(Kind::kArithmetic, std::move(left), std::move(right)));
  node->op = op;
  node->at = at;
  return node;
}

ExpressionParser::Result ExpressionParser::ParseExpression(bool with_conditional) {
  const Nesting nesting(*this);
  BATON_RETURN_IF_ERROR(nesting.Check());
  return with_conditional ? ParseConditional() : ParseOr();
}

ExpressionParser::Result ExpressionParser::ParseConditional() {
  const size_t unknown_before = unknown_.size();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (tokens_.SkipName("if")) {
    ExpressionPtr node = New(Kind::kConditional, value->at);
    node->operands.push_back(std::move(value));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr test, ParseOr());
    node->operands.push_back(std::move(test));
    ExpressionPtr otherwise;
    if (tokens_.SkipName("else")) {
      BATON_ASSIGN_OR_RETURN(otherwise, ParseExpression());
    }
    node->operands.push_back(std::move(otherwise));
    BATON_ASSIGN_OR_RETURN(value, Finish(std::move(node)));
    unknown_.resize(unknown_before);
  }
  return value;
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseAnd());
  while (tokens_.SkipName("or")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    BATON_ASSIGN_OR_RETURN(left, Binary(Kind::kOr, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseNot());
  while (tokens_.SkipName("and")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    BATON_ASSIGN_OR_RETURN(left, Binary(Kind::kAnd, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  if (!tokens_.IsName("not")) return ParseCompare();
  const Nesting nesting(*this);
  BATON_RETURN_IF_ERROR(nesting.Check());
  ExpressionPtr node = New(Kind::kNot, tokens_.Current().at);
  tokens_.Advance();
  BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  node->operands.push_back(std::move(operand));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseCompare() {
  static constexpr std::pair<std::string_view, Comparison> kComparisons[] = {
      {"==", Comparison::kEqual},     {"!=", Comparison::kNotEqual}, {"<", Comparison::kLess},
      {"<=", Comparison::kLessEqual}, {">", Comparison::kGreater},   {">=", Comparison::kGreaterEqual}};
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  ExpressionPtr node = New(Kind::kCompare, first->at);
  node->operands.push_back(std::move(first));
  while (true) {
    const auto found = std::find_if(std::begin(kComparisons), std::end(kComparisons),
                                    [&](const auto& entry) { return tokens_.IsOperator(entry.first); });
    if (found != std::end(kComparisons)) {
      node->comparisons.push_back(found->second);
      tokens_.Advance();
    } else if (tokens_.SkipName("in")) {
      node->comparisons.push_back(Comparison::kIn);
    } else if (tokens_.IsName("not") && tokens_.Ahead().kind == Token::Kind::kName && tokens_.Ahead().text == "in") {
      tokens_.Advance();
      tokens_.Advance();
      node->comparisons.push_back(Comparison::kNotIn);
    } else {
      break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr next, ParseSum());
    node->operands.push_back(std::move(next));
  }
  if (node->comparisons.empty()) return std::move(node->operands[0]);
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseSum() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseConcatenate());
  while (tokens_.IsOperator("+") || tokens_.IsOperator("-")) {
    const Operator op = tokens_.IsOperator("+") ? Operator::kAdd : Operator::kSubtract;
    const Position at = tokens_.Current().at;
    tokens_.Advance();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenate());
    BATON_ASSIGN_OR_RETURN(left, Arithmetic(op, at, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseConcatenate() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr first, ParseProduct());
  if (!tokens_.IsOperator("~")) return first;
  ExpressionPtr node = New(Kind::kConcatenate, first->at);
  node->operands.push_back(std::move(first));
  while (tokens_.SkipOperator("~")) {
    BATON_ASSIGN_OR_RETURN(ExpressionPtr next, ParseProduct());
    node->operands.push_back(std::move(next));
  }
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseProduct() {
  static constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"*", Operator::kMultiply}, {"/", Operator::kDivide}, {"//", Operator::kFloorDivide}, {"%", Operator::kModulo}};
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParsePower());
  while (true) {
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [&](const auto& entry) { return tokens_.IsOperator(entry.first); });
    if (found == std::end(kOperators)) return left;
    const Position at = tokens_.Current().at;
    tokens_.Advance();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParsePower());
    BATON_ASSIGN_OR_RETURN(left, Arithmetic(found->second, at, std::move(left), std::move(right)));
  }
}

ExpressionParser::Result ExpressionParser::ParsePower() {
  BATON_ASSIGN_OR_RETURN(ExpressionPtr left, ParseUnary(true));
  while (tokens_.IsOperator("**")) {
    const Position at = tokens_.Current().at;
    tokens_.Advance();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(true));
    BATON_ASSIGN_OR_RETURN(left, Arithmetic(Operator::kPower, at, std::move(left), std::move(right)));
  }
  return left;
}

ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filter) {
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const Nesting nesting(*this);
    BATON_RETURN_IF_ERROR(nesting.Check());
    node = New(tokens_.IsOperator("-") ? Kind::kNegate : Kind::kPlus, tokens_.Current().at);
    tokens_.Advance();
    BATON_ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(false));
    node->operands.push_back(std::move(operand));
    BATON_ASSIGN_OR_RETURN(node, Finish(std::move(node)));
  } else {
    BATON_ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  BATON_ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  return with_filter ? ParseFiltersAndTests(std::move(node)) : Result(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const Token& token = tokens_.Current();
  ExpressionPtr node = New(Kind::kConstant, token.at);
  switch (token.kind) {
    case Token::Kind::kName:
      if (token.text == "true" || token.text == "True") {
        node->constant = true;
      } else if (token.text == "false" || token.text == "False") {
        node->constant = false;
      } else if (token.text != "none" && token.text != "None") {
        node->kind = Kind::kName;
        node->name = token.text;
        node->symbol = Intern(token.text);
      }
      tokens_.Advance();
      return node;
    case Token::Kind::kInteger:
      node->constant = token.integer;
      tokens_.Advance();
      return node;
    case Token::Kind::kFloat:
      node->constant = token.number;
      tokens_.Advance();
      return node;
    case Token::Kind::kString: {
      std::string text;
      for (; tokens_.Current().kind == Token::Kind::kString; tokens_.Advance()) text += tokens_.Current().text;
      node->constant = String(std::make_shared<StringBody>(Text(std::move(text), Origin::kTemplate), nullptr));
      return node;
    }
    default:
      break;
  }
  if (tokens_.SkipOperator("(")) {
    BATON_ASSIGN_OR_RETURN(node, ParseTuple(true, {}, true));
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return node;
  }
  if (tokens_.IsOperator("[")) return ParseList();
  if (tokens_.IsOperator("{")) return ParseDict();
  return tokens_.Unexpected("an expression");
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool with_conditional, std::string_view end_name,
                                                      bool allow_empty) {
  ExpressionPtr tuple = New(Kind::kTuple, tokens_.Current().at);
  bool is_tuple = false;
  auto at_end = [&] {
    const Token& token = tokens_.Current();
    return token.kind == Token::Kind::kVariableEnd || token.kind == Token::Kind::kBlockEnd || tokens_.IsOperator(")") ||
           (!end_name.empty() && tokens_.IsName(end_name));
  };
  while (true) {
    if (!tuple->operands.empty()) BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
    if (at_end()) break;
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(with_conditional));
    tuple->operands.push_back(std::move(item));
    if (!tokens_.IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!tuple->operands.empty()) return std::move(tuple->operands[0]);
    if (!allow_empty) return tokens_.Unexpected("an expression");
  }
  return Finish(std::move(tuple));
}

ExpressionParser::Result ExpressionParser::ParseList() {
  ExpressionPtr node = New(Kind::kList, tokens_.Current().at);
  tokens_.Advance();
  while (!tokens_.IsOperator("]")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator("]")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    node->operands.push_back(std::move(item));
  }
  tokens_.Advance();
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  ExpressionPtr node = New(Kind::kDict, tokens_.Current().at);
  tokens_.Advance();
  while (!tokens_.IsOperator("}")) {
    if (!node->operands.empty()) {
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator("}")) break;
    }
    BATON_ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    node->operands.push_back(std::move(key));
    BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    node->operands.push_back(std::move(value));
  }
  tokens_.Advance();
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParsePostfix(ExpressionPtr operand) {
  while (true) {
    if (tokens_.IsOperator(".") || tokens_.IsOperator("[")) {
      BATON_ASSIGN_OR_RETURN(operand, ParseSubscript(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      BATON_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExpressionPtr operand) {
  const Position at = tokens_.Current().at;
  if (tokens_.SkipOperator(".")) {
    if (tokens_.Current().kind == Token::Kind::kInteger) {
      ExpressionPtr index = New(Kind::kConstant, tokens_.Current().at);
      index->constant = tokens_.Current().integer;
      tokens_.Advance();
      return Binary(Kind::kItem, std::move(operand), std::move(index));
    }
    ExpressionPtr node = New(Kind::kAttribute, at);
    BATON_ASSIGN_OR_RETURN(node->name, tokens_.TakeName());
    node->operands.push_back(std::move(operand));
    return Finish(std::move(node));
  }
  tokens_.Advance();
  ExpressionPtr node = New(Kind::kItem, at);
  node->operands.push_back(std::move(operand));
  auto at_end = [&] { return tokens_.IsOperator(":") || tokens_.IsOperator("]"); };
  for (int part = 0; part < 3; ++part) {
    ExpressionPtr bound;
    if (!at_end()) {
      BATON_ASSIGN_OR_RETURN(bound, ParseExpression());
    }
    node->operands.push_back(std::move(bound));
    if (!tokens_.IsOperator(":") || part == 2) break;
    tokens_.Advance();
    node->kind = Kind::kSlice;
  }
  if (node->kind == Kind::kItem && node->operands[1] == nullptr) return tokens_.Unexpected("an index");
  if (node->kind == Kind::kSlice) node->operands.resize(4);
  BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Finish(std::move(node));
}

absl::StatusOr<std::unique_ptr<CallArguments>> ExpressionParser::ParseArguments() {
  auto arguments = std::make_unique<CallArguments>();
  BATON_RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  bool first = true;
  while (!tokens_.IsOperator(")")) {
    if (!first) {
      BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(","));
      if (tokens_.IsOperator(")")) break;
    }
    first = false;
    const Position at = tokens_.Current().at;
    if (tokens_.SkipOperator("*")) {
      if (arguments->more_positional != nullptr) return SyntaxError(at, "a second * argument");
      BATON_ASSIGN_OR_RETURN(arguments->more_positional, ParseExpression());
    } else if (tokens_.SkipOperator("**")) {
      if (arguments->more_keyword != nullptr) return SyntaxError(at, "a second ** argument");
      BATON_ASSIGN_OR_RETURN(arguments->more_keyword, ParseExpression());
    } else if (tokens_.Current().kind == Token::Kind::kName && tokens_.Ahead().kind == Token::Kind::kOperator &&
               tokens_.Ahead().text == "=") {
      std::string name = tokens_.Current().text;
      tokens_.Advance();
      tokens_.Advance();
      BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments->keyword.emplace_back(std::move(name), std::move(value));
    } else {
      if (!arguments->keyword.empty()) return SyntaxError(at, "positional argument after a named one");
      BATON_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      arguments->positional.push_back(std::move(value));
    }
  }
  tokens_.Advance();
  return arguments;
}

ExpressionParser::Result ExpressionParser::ParseCall(ExpressionPtr operand) {
  ExpressionPtr node = New(Kind::kCall, tokens_.Current().at);
  node->operands.push_back(std::move(operand));
  BATON_ASSIGN_OR_RETURN(node->arguments, ParseArguments());
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseFiltersAndTests(ExpressionPtr operand) {
  while (true) {
    if (tokens_.IsOperator("|")) {
      BATON_ASSIGN_OR_RETURN(operand, ParseFilters(std::move(operand)));
    } else if (tokens_.IsName("is")) {
      BATON_ASSIGN_OR_RETURN(operand, ParseTest(std::move(operand)));
    } else if (tokens_.IsOperator("(")) {
      BATON_ASSIGN_OR_RETURN(operand, ParseCall(std::move(operand)));
    } else {
      return operand;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseFilters(ExpressionPtr operand, bool first_without_pipe) {
  while (first_without_pipe || tokens_.SkipOperator("|")) {
    first_without_pipe = false;
    ExpressionPtr node = New(Kind::kFilter, tokens_.Current().at);
    BATON_ASSIGN_OR_RETURN(node->name, tokens_.TakeName());
    if (!HasFilter(node->name)) NoteUnknown(node->at, "no filter named '" + node->name + "'");
    node->operands.push_back(std::move(operand));
    if (tokens_.IsOperator("(")) {
      BATON_ASSIGN_OR_RETURN(node->arguments, ParseArguments());
    } else {
      node->arguments = std::make_unique<CallArguments>();
    }
    BATON_ASSIGN_OR_RETURN(operand, Finish(std::move(node)));
  }
  return operand;
}

ExpressionParser::Result ExpressionParser::ParseTest(ExpressionPtr operand) {
  tokens_.Advance();
  const bool negated = tokens_.SkipName("not");
  ExpressionPtr node = New(Kind::kTest, tokens_.Current().at);
  BATON_ASSIGN_OR_RETURN(node->name, tokens_.TakeName());
  if (!HasTest(node->name)) NoteUnknown(node->at, "no test named '" + node->name + "'");
  node->operands.push_back(std::move(operand));
  const Token& token = tokens_.Current();
  const bool starts_argument = token.kind == Token::Kind::kString || token.kind == Token::Kind::kInteger ||
                               token.kind == Token::Kind::kFloat || tokens_.IsOperator("[") ||
                               tokens_.IsOperator("{") ||
                               (token.kind == Token::Kind::kName && !tokens_.IsAnyName({"else", "or", "and"}));
  if (tokens_.IsOperator("(")) {
    BATON_ASSIGN_OR_RETURN(node->arguments, ParseArguments());
  } else {
    node->arguments = std::make_unique<CallArguments>();
    if (starts_argument) {
      if (tokens_.IsName("is")) return SyntaxError(token.at, "tests cannot be chained with is");
      BATON_ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
      BATON_ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
      node->arguments->positional.push_back(std::move(argument));
    }
  }
  BATON_ASSIGN_OR_RETURN(node, Finish(std::move(node)));
  if (!negated) return node;
  ExpressionPtr inverse = New(Kind::kNot, node->at);
  inverse->operands.push_back(std::move(node));
  return Finish(std::move(inverse));
}

ExpressionParser::Result ExpressionParser::ParseTargetName(bool with_namespace) {
  ExpressionPtr node = New(Kind::kName, tokens_.Current().at);
  if (tokens_.IsAnyName({"true", "True", "false", "False", "none", "None"})) return tokens_.Unexpected("a variable");
  BATON_ASSIGN_OR_RETURN(node->name, tokens_.TakeName());
  node->symbol = Intern(node->name);
  if (with_namespace && tokens_.SkipOperator(".")) {
    node->kind = Kind::kNamespaceRef;
    BATON_ASSIGN_OR_RETURN(node->name, tokens_.TakeName());
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseTarget(bool with_namespace, bool with_tuple) {
  const bool parenthesised = with_tuple && tokens_.SkipOperator("(");
  BATON_ASSIGN_OR_RETURN(ExpressionPtr target, ParseTargetName(with_namespace));
  if (with_tuple && tokens_.IsOperator(",")) {
    ExpressionPtr tuple = New(Kind::kTuple, target->at);
    tuple->operands.push_back(std::move(target));
    while (tokens_.SkipOperator(",")) {
      if (tokens_.Current().kind != Token::Kind::kName || tokens_.IsName("in")) break;
      BATON_ASSIGN_OR_RETURN(target, ParseTargetName(with_namespace));
      tuple->operands.push_back(std::move(target));
    }
    target = std::move(tuple);
  }
  if (parenthesised) BATON_RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
  return target;
}

}  // namespace baton::jinja
