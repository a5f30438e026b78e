/** What runs each night only (.github/workflows/nightly.yml): further programs of a class that `npm test` has an example of. */
export const isNightly = Boolean(process.env['MOTE_TEST_NIGHTLY'])
