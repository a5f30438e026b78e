/**
 * True in `npm run test:all`, which tests every example of a class; `npm test` tests one or a few examples of a class
 * whose examples run the same code. Each push runs both (.github/workflows/check.yml).
 */
export const runsAll = Boolean(process.env['MOTE_TEST_ALL'])
