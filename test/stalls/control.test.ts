// Not repeated on the distribution's PostgreSQL: this file tests parsers, not the database.
import { beforeAll } from 'vitest'
import { controlCases } from './control.ts'
import { packed } from './inputs.ts'
import { testStalls } from './measure.ts'

// Compress the archives before the tests, because compressing also blocks the event loop.
beforeAll(() => void packed())

testStalls(controlCases)
