/**
 * Chooses between the two extents of the tests. `npm test` takes ten minutes on two cores: it tests every capability,
 * and where many examples run the same code, one or a few of them. `npm run test:all` tests every example. Each push
 * runs both (.github/workflows/check.yml). docs/notes/test-suite-time.md lists what runs only in `npm run test:all`, and
 * what covers it in `npm test`.
 */

import { describe, it } from 'vitest'

/** True in `npm run test:all`. */
export const runsAll = Boolean(process.env['MOTE_TEST_ALL'])

/** `it` for a test that only `npm run test:all` runs. */
export const itInAll = it.skipIf(!runsAll)

/** `describe` for tests that only `npm run test:all` runs. Hooks in it do not run otherwise. */
export const describeInAll = describe.skipIf(!runsAll)
