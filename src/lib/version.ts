/** The product's version. The version of the API description is another one (0.5.4). */
export const productVersion = '0.1.0'
