// Runs on one PostgreSQL only: tests parsers, not the database.
import { beforeAll } from 'vitest'
import { imagesCases } from './images.ts'
import { packed } from './inputs.ts'
import { testStalls } from './measure.ts'

// Compressing them here would be a stall of its own.
beforeAll(() => void packed())

testStalls(imagesCases)
