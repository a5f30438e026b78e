// Not repeated on the distribution's PostgreSQL: tests parsers, not the database.
import { vmmsCases } from './vmms.ts'
import { testStalls } from './measure.ts'

testStalls(vmmsCases)
