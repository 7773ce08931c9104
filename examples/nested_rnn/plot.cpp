// SPDX-License-Identifier: Apache-2.0
#include "plot.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <stdexcept>

void write_plot(const std::filesystem::path& file, const std::vector<Epoch>& epochs, double baseline) {
  constexpr double left = 50, top = 30, width = 480, height = 220;
  double greatest = 0;
  for (const Epoch& epoch : epochs) greatest = std::max(greatest, epoch.loss);
  const auto x = [&](std::size_t i) {
    return left + width * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(epochs.size() - 1, 1));
  };
  const auto y = [&](double share) { return top + height * (1 - share); };

  std::ofstream out(file);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"640\" height=\"300\" font-family=\"sans-serif\" "
         "font-size=\"12\">\n<rect width=\"640\" height=\"300\" fill=\"white\"/>\n";
  for (int tick = 0; tick <= 4; ++tick) {
    const double share = tick / 4.0;
    out << "<line x1=\"" << left << "\" x2=\"" << left + width << "\" y1=\"" << y(share) << "\" y2=\"" << y(share)
        << "\" stroke=\"#ddd\"/><text x=\"" << left - 8 << "\" y=\"" << y(share) + 4 << "\" text-anchor=\"end\">"
        << 100 * share << "%</text>\n";
  }
  const auto curve = [&](const char* name, const char* colour, double label, const auto& share) {
    out << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\" points=\"";
    for (std::size_t i = 0; i < epochs.size(); ++i) out << x(i) << ',' << y(share(epochs[i])) << ' ';
    out << "\"/><text x=\"" << left + width + 10 << "\" y=\"" << label << "\" fill=\"" << colour << "\">" << name
        << "</text>\n";
  };
  curve("training", "#1f77b4", 50, [](const Epoch& epoch) { return epoch.training_accuracy; });
  curve("held out", "#d62728", 68, [](const Epoch& epoch) { return epoch.held_out_accuracy; });
  curve("largest class", "#999", 86, [&](const Epoch&) { return baseline; });
  curve("loss", "#2ca02c", 104, [&](const Epoch& epoch) { return greatest > 0 ? epoch.loss / greatest : 0; });
  out << "<text x=\"" << left << "\" y=\"18\">Accuracy by epoch; loss, 100% being " << greatest << "</text>\n"
      << "<text x=\"" << left << "\" y=\"272\">1</text><text x=\"" << left + width
      << "\" y=\"272\" text-anchor=\"end\">epoch " << epochs.size() << "</text>\n</svg>\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}
