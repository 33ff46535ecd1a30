#pragma once

namespace index_table {

void InitializePaths();

} // namespace index_table
