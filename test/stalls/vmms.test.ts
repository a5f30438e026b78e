// once-is-enough: tests parsers, not the database.
import { vmmsCases } from './vmms.ts'
import { testStalls } from './measure.ts'

testStalls(vmmsCases)
