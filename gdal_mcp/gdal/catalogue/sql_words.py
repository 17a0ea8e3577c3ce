"""The words of SQL that `sql` knows: keywords, statements that are refused, and functions that only compute."""

from typing import Final

# May stand before a bracket without being a function.
KEYWORDS: Final = frozenset(
    """
    ALL AND AS ASC BETWEEN BY CASE COLLATE CROSS DESC DISTINCT ELSE END ESCAPE EXCEPT EXISTS FILTER FROM FULL GLOB GROUP
    HAVING ILIKE IN INNER INTERSECT IS ISNULL JOIN LEFT LIKE LIMIT MATERIALIZED NATURAL NOT NOTNULL NULL OFFSET ON OR ORDER
    OUTER OVER PARTITION RECURSIVE RIGHT SELECT THEN UNION USING VALUES WHEN WHERE WITH
    """.split()
)

# They begin a statement, or change what one does. A field of that name is quoted.
REFUSED_WORDS: Final = frozenset(
    """
    ALTER ANALYZE ATTACH BEGIN COMMIT CREATE DELETE DETACH DROP EXPLAIN INDEXED INSERT INTO LOAD PRAGMA REINDEX RELEASE
    RENAME REPLACE ROLLBACK SAVEPOINT TRIGGER UPDATE UPSERT VACUUM VIRTUAL
    """.split()
)

# In lower case, those of geometry without `st_`. SQLite, GDAL's own of OGRSQL, GeoPackage and SpatiaLite; and types of CAST.
FUNCTIONS: Final = frozenset(
    """
    abs cast char coalesce concat concat_ws format glob hex hstore_get_value ifnull iif instr length like likelihood likely lower
    ltrim max min nullif octet_length printf quote replace round rtrim sign soundex substr substring trim typeof unhex
    unicode unlikely upper
    avg count group_concat median stddev stddev_pop stddev_samp string_agg sum total var_pop var_samp variance
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh cot degrees exp floor ln log log10 log2 mod pi pow power
    radians sin sinh sqrt tan tanh trunc
    date datetime julianday strftime time timediff unixepoch
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number
    json json_array json_array_length json_extract json_object json_type json_valid json_group_array json_group_object
    bigint bigint64 boolean character date decimal double float integer integer64 numeric real smallint text varchar geometry
    area asbinary asgeojson astext aswkb aswkt azimuth boundary buffer buildarea buildmbr castautomagic casttolinestring
    casttomulti casttomultilinestring casttomultipoint casttomultipolygon casttopoint casttopolygon casttosingle centroid
    closestpoint collect collectionextract concavehull contains containsproperly convexhull coorddim coveredby covers
    crosses delaunaytriangulation difference dimension disjoint distance endpoint envelope equals expand exteriorring extent
    force2d flipcoordinates geodesicarea geodesiclength geomfromgeojson geomfromtext geomfromwkb geometryn geometrytype
    geomcollfromtext greatcirclelength hausdorffdistance interiorringn intersection intersects is3d isclosed isempty
    ismeasured isring issimple isvalid isvalidreason length linefromtext linemerge locate_along_measure makeline makepoint
    makepointm makepointz makepolygon makevalid maxdistance maxm maxx maxy maxz mbrcontains mbrdisjoint mbrequal
    mbrintersects mbroverlaps mbrtouches mbrwithin mbrminx mbrminy mbrmaxx mbrmaxy minimumboundingcircle minm minx miny minz
    mlinefromtext mpointfromtext mpolyfromtext multi node npoints nrings numgeometries numinteriorring numinteriorrings
    numpoints offsetcurve overlaps perimeter point pointfromtext pointn pointonsurface polyfromtext polygonize
    project ptdistwithin relate removepoint reverse rotate rotatecoords sanitizegeometry scalecoords segmentize setpoint
    setsrid sharedpaths shift_longitude shiftcoords shortestline simplify simplifypreservetopology singlesidedbuffer snap
    snaptogrid split srid startpoint subdivide swapcoords symdifference touches transform translate unaryunion union
    voronojdiagram within wkbtosql wkttosql x y z m line_interpolate_point line_locate_point line_substring
    addpoint ogr_getgeometrytype sqlite_version
    """.split()
)
