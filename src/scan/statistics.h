#pragma once

namespace index_table {

void InitializeScanStatistics();

} // namespace index_table
