// Not repeated on the distribution's PostgreSQL: this file tests parsers, not the database.
import { guestsCases } from './guests.ts'
import { testStalls } from './measure.ts'

testStalls(guestsCases)
