#include "common/config/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <map>

#include "common/base/version.h"
#include "common/config/number_check.h"

namespace baton {
namespace {

std::string EnvironmentName(const std::string& flag) {
  std::string name = "BATON_" + flag;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

}  // namespace

struct Flags::Impl {
  Impl(std::string program, std::string description) : app(std::move(description), std::move(program)) {}

  // A flag given twice counts as its last value, so that a script's defaults can be overridden behind them.
  void KeepScalar(const std::string& name, CLI::Option* option) {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    Keep(name, option);
  }

  void Keep(const std::string& name, CLI::Option* option) {
    option->envname(EnvironmentName(name))->capture_default_str();
    options[name] = option;
  }

  CLI::App app;
  std::map<std::string, CLI::Option*> options;
  std::vector<std::pair<CLI::Option*, bool>> switches;  // with their defaults
};

Flags::Flags(std::string program, std::string description)
    : impl_(std::make_unique<Impl>(program, std::move(description))) {
  impl_->app.set_version_flag("--version", program + " " + kVersion);
}

Flags::~Flags() = default;

void Flags::Add(const std::string& name, std::string* field, const std::string& help) {
  impl_->KeepScalar(name, impl_->app.add_option("--" + name, *field, help));
}

void Flags::Add(const std::string& name, bool* field, const std::string& help) {
  CLI::Option* option = impl_->app.add_option("--" + name, *field, help)->expected(0, 1);
  impl_->KeepScalar(name, option);
  option->default_str("true");  // while arguments are read: what the flag alone means
  impl_->switches.emplace_back(option, *field);
}

void Flags::Add(const std::string& name, uint16_t* field, const std::string& help) {
  impl_->KeepScalar(name, impl_->app.add_option("--" + name, *field, help)->check(WholeNumberCheck(0, 65535)));
}

void Flags::Add(const std::string& name, uint32_t* field, const std::string& help, uint32_t low, uint32_t high) {
  impl_->KeepScalar(name, impl_->app.add_option("--" + name, *field, help)->check(WholeNumberCheck(low, high)));
}

void Flags::Add(const std::string& name, double* field, const std::string& help, double low, double high) {
  impl_->KeepScalar(name, impl_->app.add_option("--" + name, *field, help)->check(RealNumberCheck(low, high)));
}

void Flags::Add(const std::string& name, std::optional<double>* field, const std::string& help, double low,
                double high) {
  impl_->KeepScalar(name, impl_->app.add_option("--" + name, *field, help)->check(RealNumberCheck(low, high)));
}

void Flags::Add(const std::string& name, std::vector<std::string>* field, const std::string& help) {
  CLI::Option* option = impl_->app.add_option("--" + name, *field, help)->delimiter(',');
  impl_->Keep(name, option);
  if (field->empty()) option->default_str("");
}

void Flags::AddChoice(const std::string& name, std::string* field, const std::vector<std::string>& choices,
                      const std::string& help) {
  impl_->KeepScalar(name, impl_->app.add_option("--" + name, *field, help)->check(CLI::IsMember(choices)));
}

void Flags::Require(const std::string& name) { impl_->options.at(name)->required(); }

std::optional<int> Flags::Parse(int argc, const char* const* argv) {
  try {
    impl_->app.parse(argc, const_cast<char**>(argv));
  } catch (const CLI::Success& success) {
    for (const auto& [option, value] : impl_->switches) option->default_str(value ? "true" : "false");
    return impl_->app.exit(success, std::cout, std::cerr);
  } catch (const CLI::ConversionError& error) {
    // Only of a bool: numbers were checked before they are converted.
    std::cerr << impl_->app.get_name() << ": " << error.what() << ", must be true or false (--help lists the flags)\n";
    return 2;
  } catch (const CLI::ParseError& error) {
    std::cerr << impl_->app.get_name() << ": " << error.what() << " (--help lists the flags)\n";
    return 2;
  }
  return std::nullopt;
}

std::vector<std::string> Flags::Given() const {
  std::vector<std::string> names;
  for (const auto& [name, option] : impl_->options) {
    if (option->count() > 0) names.push_back(name);
  }
  return names;
}

}  // namespace baton
