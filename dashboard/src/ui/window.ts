/** The seconds that charts show, so that lines move and do not grow. */
export const windowSeconds = 300
