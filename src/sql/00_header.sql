\echo Use "CREATE EXTENSION index_table" to load this file. \quit
