// Not repeated on the distribution's PostgreSQL: this file tests parsers, not the database.
import { vmmsCases } from './vmms.ts'
import { testStalls } from './measure.ts'

testStalls(vmmsCases)
