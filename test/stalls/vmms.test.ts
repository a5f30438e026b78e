// Runs on one PostgreSQL only: tests parsers, not the database.
import { vmmsCases } from './vmms.ts'
import { testStalls } from './measure.ts'

testStalls(vmmsCases)
