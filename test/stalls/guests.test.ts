// Runs on one PostgreSQL only: tests parsers, not the database.
import { guestsCases } from './guests.ts'
import { testStalls } from './measure.ts'

testStalls(guestsCases)
