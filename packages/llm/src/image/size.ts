/** What the header of a picture says of it, whatever its format. */

export interface ImageSize {
  /** Pixels, as the file stores them. */
  readonly width: number
  readonly height: number
  /** It has several frames. */
  readonly animated?: true
  /** How EXIF says that it is to be turned, 2 to 8; absent when as it is. */
  readonly orientation?: number
}
