// gpu_report RECORDS JSON: reads the records of a run so far, writes the report and prints its tables. A line that is
// no record, such as one cut off when its writer died, is passed over. Exit status 0, or 2 when a file is missing.

#include <fstream>
#include <iostream>

#include "tests/gpu/report.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: gpu_report RECORDS JSON\n";
    return 2;
  }
  std::ifstream in(argv[1]);
  if (!in) {
    std::cerr << "gpu_report: " << argv[1] << " cannot be read\n";
    return 2;
  }
  std::vector<nlohmann::json> records;
  for (std::string line; std::getline(in, line);) {
    nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (record.is_object()) records.push_back(std::move(record));
  }
  const nlohmann::ordered_json report = baton::MakeReport(records);
  std::ofstream out(argv[2]);
  out << report.dump(2) << "\n";
  if (!out) {
    std::cerr << "gpu_report: " << argv[2] << " cannot be written\n";
    return 2;
  }
  std::cout << baton::ReportText(report);
  return 0;
}
