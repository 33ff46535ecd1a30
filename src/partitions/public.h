// Partitions that join, leave and are truncated: their numbers, their triggers, what refers to
// their entries, and the sweep that removes entries of retired numbers.
//
// The one header of this folder that others include.
#pragma once

#include "partitions/membership.h"
#include "partitions/references.h"
#include "partitions/sweep.h"
#include "partitions/triggers.h"
#include "partitions/truncate.h"
